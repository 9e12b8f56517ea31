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
