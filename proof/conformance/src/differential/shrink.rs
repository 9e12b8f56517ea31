//! A script that fails, made short: the steps that it fails without are left
//! out, in ever smaller runs (Zeller, "Yesterday, my program worked", 1999).

use super::script::Script;

/// The shortest script found of which `fails` is still true.
pub(crate) fn shrink(mut script: Script, mut fails: impl FnMut(&Script) -> bool) -> Script {
    let mut run = script.steps.len() / 2;
    while run > 0 {
        let before = script.steps.len();
        script = without_runs(script, run, &mut fails);
        if script.steps.len() == before || run > 1 {
            run /= 2;
        }
    }
    script
}

/// Leaves out every run of so many steps that is not needed.
fn without_runs(mut script: Script, run: usize, mut fails: impl FnMut(&Script) -> bool) -> Script {
    let mut at = 0;
    while at < script.steps.len() {
        let mut shorter = script.clone();
        let end = (at + run).min(shorter.steps.len());
        shorter.steps.drain(at..end);
        if fails(&shorter) {
            script = shorter;
        } else {
            at += run;
        }
    }
    script
}
