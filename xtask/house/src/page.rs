//! The table of the crates, and the picture of who imports whom.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use layout::backends::svg::SVGWriter;
use layout::gv::{DotParser, GraphBuilder};

use crate::circles::Circle;
use crate::surface;
use crate::tree::Crate;
use crate::workspace::Package;

/// One crate.
#[derive(Debug)]
pub struct Row {
    name: String,
    folder: PathBuf,
    files: usize,
    lines: usize,
    names: usize,
    needs: usize,
    circles: Vec<Circle>,
}

impl Row {
    pub fn new(package: &Package, crates: &[Crate], circles: Vec<Circle>) -> Self {
        let modules = crates.iter().flat_map(|one| &one.modules);
        let files: BTreeSet<_> = modules.map(|module| module.file.clone()).collect();
        Self {
            name: package.name.clone(),
            folder: package.folder.clone(),
            lines: files.iter().map(|file| lines(file)).sum(),
            files: files.len(),
            names: crates.iter().map(surface::names).sum(),
            needs: package.needs.len(),
            circles,
        }
    }

    fn in_circles(&self) -> usize {
        self.circles.iter().map(|circle| circle.files.len()).sum()
    }
}

/// Lines with code, without the tests at a file's end, blank lines and comments.
fn lines(file: &Path) -> usize {
    let text = fs::read_to_string(file).unwrap_or_default();
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let is_code = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with("//")
    };
    code.lines().filter(is_code).count()
}

/// Prints the table, and the circles.
pub fn print(rows: &[Row], why: bool) {
    println!(
        "{:<26}{:>7}{:>9}{:>9}{:>8}{:>13}",
        "crate", "files", "lines", "public", "needs", "in circles"
    );
    for row in rows {
        let (name, files, lines) = (&row.name, row.files, row.lines);
        let (names, needs, circles) = (row.names, row.needs, row.in_circles());
        println!("{name:<26}{files:>7}{lines:>9}{names:>9}{needs:>8}{circles:>13}");
    }
    let sum = |of: fn(&Row) -> usize| rows.iter().map(of).sum::<usize>();
    println!(
        "{:<26}{:>7}{:>9}{:>9}{:>8}{:>13}",
        "all",
        sum(|row| row.files),
        sum(|row| row.lines),
        sum(|row| row.names),
        "",
        sum(Row::in_circles),
    );
    for row in rows {
        for circle in &row.circles {
            let files = circle.files.iter().map(|file| short(row, file));
            let files: Vec<_> = files.collect();
            println!("\n{}: {} files import each other:", row.name, files.len());
            files.iter().for_each(|file| println!("  {file}"));
            if why {
                for ((from, to), names) in &circle.ties {
                    let names: Vec<_> = names.iter().map(String::as_str).collect();
                    let (from, to) = (short(row, from), short(row, to));
                    println!("    {from} -> {to}: {}", names.join(", "));
                }
            }
        }
    }
}

fn short(row: &Row, file: &Path) -> String {
    let file = file.strip_prefix(&row.folder).unwrap_or(file);
    file.display().to_string()
}

/// Where the crates are that nobody is given.
const WORKSHOPS: &[&str] = &["proof", "xtask", "examples"];

/// So many folders of a crate are named in one line.
const FOLDERS_IN_A_LINE: usize = 4;

/// Draws the crates that are given to others, with their folders, and an arrow to each
/// that one needs and nothing between them needs, as SVG. Arrows go down.
pub fn picture(packages: &[Package]) -> Result<String, String> {
    let given = packages.iter().filter(|package| !is_workshop(package));
    let ours: BTreeMap<_, _> = given
        .map(|package| (package.name.as_str(), package))
        .collect();
    let mut dot = String::from("digraph house {\n");
    for (name, package) in &ours {
        let needs: Vec<_> = package.needs.iter().map(String::as_str).collect();
        let needs = needs.into_iter().filter(|need| ours.contains_key(need));
        let needs: Vec<_> = needs.collect();
        let label = label(package);
        dot.push_str(&format!("  \"{name}\" [shape=box, label=\"{label}\"];\n"));
        for need in &needs {
            let by_another = needs
                .iter()
                .any(|other| other != need && reaches(&ours, other, need));
            if !by_another {
                dot.push_str(&format!("  \"{name}\" -> \"{need}\";\n"));
            }
        }
    }
    dot.push_str("}\n");
    let graph = DotParser::new(&dot).process();
    let graph = graph.map_err(|error| format!("the picture cannot be made: {error}"))?;
    let mut builder = GraphBuilder::new();
    builder.visit_graph(&graph);
    let mut svg = SVGWriter::new();
    builder.get().do_it(false, false, false, &mut svg);
    Ok(svg.finalize())
}

fn is_workshop(package: &Package) -> bool {
    let mut above = package.folder.ancestors();
    above.any(|folder| {
        let name = folder.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| WORKSHOPS.contains(&name))
    })
}

/// The crate's name, and below it its folders.
fn label(package: &Package) -> String {
    let folders = fs::read_dir(package.folder.join("src"));
    let folders = folders.into_iter().flatten().flatten();
    let folders = folders.filter(|entry| entry.path().is_dir());
    let mut folders: Vec<_> = folders
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    folders.sort();
    let lines = folders.chunks(FOLDERS_IN_A_LINE);
    let lines: Vec<_> = lines.map(|line| line.join("  ")).collect();
    match lines.is_empty() {
        true => package.name.clone(),
        false => format!("{}\\n{}", package.name, lines.join("\\n")),
    }
}

fn reaches(ours: &BTreeMap<&str, &Package>, from: &str, to: &str) -> bool {
    let needs = ours.get(from).map(|package| package.needs.as_slice());
    let mut needs = needs.unwrap_or_default().iter();
    needs.any(|need| need == to || (ours.contains_key(need.as_str()) && reaches(ours, need, to)))
}
