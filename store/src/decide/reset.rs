//! How a key is forgotten.

use tidegate_core::State;

use super::step::Row;
use crate::command::KeyCommand;
use crate::key::KeyPath;
use crate::ledger::Ledger;

/// Forgets what was used of the key's own limits. Slots stay with their
/// holders, who would otherwise not be alone; and what a lease took before is
/// not given back after, to the loss of what is taken from now on.
pub(super) fn reset<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    ledger: &mut Ledger<O>,
) {
    let Some(row) = rows.last_mut() else { return };
    row.iter_mut().for_each(State::reset);
    let range = command.plan.range(command.key.depth() - 1);
    let limits = &command.plan.limits()[range];
    forget_charges(command, ledger, |uid| {
        limits.iter().any(|limit| limit.uid == uid)
    });
}

/// Notes that leases of the command's key, and of those below it, give nothing back of the
/// limits of these numbers.
pub(crate) fn forget_charges<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    ledger: &mut Ledger<O>,
    which: impl Fn(u32) -> bool,
) {
    let levels = command.plan.levels();
    ledger.forget_charges(
        |owner| is_below(owner.as_ref(), &command.key, levels),
        |share| which(share.uid),
    );
}

/// Whether `owner` is `key` or has it for an ancestor. The levels say so, not
/// the separators: where there is one, `a/b` is no descendant of `a`.
fn is_below(owner: &[u8], key: &KeyPath<'_>, levels: usize) -> bool {
    let level = key.depth() - 1;
    let path = KeyPath::stored(owner, levels);
    path.is_ok_and(|path| level < path.depth() && path.row(level) == key.own_row())
}
