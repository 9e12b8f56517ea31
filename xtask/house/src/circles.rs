//! Files that import each other, straight or by way of others.

use std::collections::BTreeMap;
use std::path::PathBuf;

use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use crate::imports::Imports;

/// Files each of which is reached from each.
#[derive(Debug)]
pub struct Circle {
    pub files: Vec<PathBuf>,
    /// What ties them.
    pub ties: Imports,
}

/// All circles, the largest first.
pub fn of(imports: Imports) -> Vec<Circle> {
    let mut graph = DiGraph::<PathBuf, ()>::new();
    let mut nodes = BTreeMap::<PathBuf, NodeIndex>::new();
    for (from, to) in imports.keys() {
        let [from, to] = [from, to].map(|file| match nodes.get(file) {
            Some(node) => *node,
            None => {
                let node = graph.add_node(file.clone());
                nodes.insert(file.clone(), node);
                node
            }
        });
        graph.add_edge(from, to, ());
    }
    let groups = tarjan_scc(&graph)
        .into_iter()
        .filter(|group| group.len() > 1);
    let mut circles: Vec<_> = groups
        .map(|group| {
            let mut files: Vec<_> = group.iter().map(|node| graph[*node].clone()).collect();
            files.sort();
            let is_within = |(from, to): &(PathBuf, PathBuf)| {
                files.binary_search(from).is_ok() && files.binary_search(to).is_ok()
            };
            let ties = imports.iter().filter(|(way, _)| is_within(way));
            let ties = ties
                .map(|(way, names)| (way.clone(), names.clone()))
                .collect();
            Circle { files, ties }
        })
        .collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.files.len()));
    circles
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::of;
    use crate::imports;
    use crate::tree::Crate;

    /// The files of each circle of a crate of these files, without their folder.
    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        let found = Crate::read(&folder.path().join("lib.rs")).expect("a crate");
        let name = |path: &std::path::PathBuf| {
            let path = path.strip_prefix(folder.path()).expect("of the folder");
            path.display().to_string()
        };
        let circles = of(imports::of(&found)).into_iter();
        circles
            .map(|circle| circle.files.iter().map(name).collect())
            .collect()
    }

    #[test]
    fn files_that_import_each_other_are_a_circle_whatever_way_they_take() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::B;"),
            ("a.rs", "use crate::B;\npub struct A(B);"),
            ("b.rs", "pub struct B(Vec<super::a::A>);"),
        ];
        assert_eq!(circles(&files), [["a.rs", "b.rs"]]);
    }

    #[test]
    fn a_table_of_contents_is_in_no_circle() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use a::*;\npub use b::B;"),
            (
                "a.rs",
                "pub struct A;\n#[cfg(test)]\nmod tests { use crate::B; }",
            ),
            ("b/mod.rs", "mod inner;\npub use inner::B;"),
            ("b/inner.rs", "use crate::A;\npub struct B(A);"),
        ];
        assert_eq!(circles(&files), Vec::<Vec<String>>::new());
    }

    #[test]
    fn what_a_macro_is_told_counts() {
        let files = [
            ("lib.rs", "mod a;\nmod b;"),
            ("a.rs", "pub fn a() { assert!(super::b::b()) }"),
            ("b.rs", "use crate::a;\npub fn b() -> bool { a::a(); true }"),
        ];
        assert_eq!(circles(&files), [["a.rs", "b.rs"]]);
    }
}
