//! The modules of one crate: what each defines and imports. What only tests have is left
//! out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, UseTree, Visibility};

use crate::members::{self, is_hidden};

/// A crate, module by module; the first is its root.
#[derive(Debug)]
pub struct Crate {
    pub modules: Vec<Module>,
}

/// One module, with a file of its own or within another's.
#[derive(Debug)]
pub struct Module {
    pub file: PathBuf,
    pub parent: Option<usize>,
    pub children: BTreeMap<String, usize>,
    /// What it defines.
    pub defined: BTreeMap<String, Defined>,
    pub uses: Vec<Use>,
    /// Paths of two and more words in its text.
    pub paths: Vec<Vec<String>>,
    /// What can be written after a type, by the path that leads to it from here: its public
    /// functions, constants, fields and variants.
    pub members: BTreeMap<Vec<String>, BTreeSet<String>>,
}

/// One definition.
#[derive(Clone, Copy, Debug)]
pub struct Defined {
    /// It is `pub` without bounds.
    pub is_public: bool,
    /// It is a module's declaration.
    pub is_module: bool,
}

/// One name that is imported.
#[derive(Clone, Debug)]
pub struct Use {
    /// The name it has here; `None` for all names (`*`).
    pub name: Option<String>,
    pub path: Vec<String>,
    pub is_public: bool,
}

impl Crate {
    /// Reads the crate whose first file this is.
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut found = Self {
            modules: Vec::new(),
        };
        let folder = root.parent().unwrap_or(Path::new(".")).to_owned();
        found.file(root, &folder, None)?;
        Ok(found)
    }

    /// Adds the module of a file; its children's files are in `folder`.
    fn file(&mut self, path: &Path, folder: &Path, parent: Option<usize>) -> Result<usize, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let parsed = syn::parse_file(&text)
            .map_err(|error| format!("cannot parse {}: {error}", path.display()))?;
        self.module(path, folder, parent, &parsed.items)
    }

    fn module(
        &mut self,
        path: &Path,
        folder: &Path,
        parent: Option<usize>,
        items: &[Item],
    ) -> Result<usize, String> {
        let number = self.modules.len();
        self.modules.push(Module {
            file: path.to_owned(),
            parent,
            children: BTreeMap::new(),
            defined: BTreeMap::new(),
            uses: Vec::new(),
            paths: Vec::new(),
            members: BTreeMap::new(),
        });
        for item in items {
            if attributes(item).is_some_and(is_for_tests) {
                continue;
            }
            match item {
                Item::Mod(module) => self.child(path, folder, number, module)?,
                Item::Use(item) => {
                    let is_public = matches!(item.vis, Visibility::Public(_));
                    let uses = &mut self.modules[number].uses;
                    flatten(&item.tree, &mut Vec::new(), is_public, uses);
                }
                _ => {
                    let module = &mut self.modules[number];
                    if let Some((name, vis)) = definition(item) {
                        let is_public = matches!(vis, Some(Visibility::Public(_)));
                        let defined = Defined {
                            is_public,
                            is_module: false,
                        };
                        module.defined.insert(name, defined);
                    }
                    for (of, member) in members::of(item) {
                        module.members.entry(of).or_default().insert(member);
                    }
                    let mut seen = Paths(&mut module.paths);
                    seen.visit_item(item);
                }
            }
        }
        Ok(number)
    }

    fn child(
        &mut self,
        path: &Path,
        folder: &Path,
        number: usize,
        module: &ItemMod,
    ) -> Result<(), String> {
        let name = module.ident.to_string();
        let inner = folder.join(&name);
        let child = match &module.content {
            Some((_, items)) => self.module(path, &inner, Some(number), items)?,
            None => match file_of(module, path, folder, &name) {
                Some(file) => self.file(&file, &inner, Some(number))?,
                // What is generated is in no folder of ours.
                None => return Ok(()),
            },
        };
        let defined = Defined {
            is_public: matches!(module.vis, Visibility::Public(_)) && !is_hidden(&module.attrs),
            is_module: true,
        };
        let parent = &mut self.modules[number];
        parent.children.insert(name.clone(), child);
        parent.defined.insert(name, defined);
        Ok(())
    }
}

fn file_of(module: &ItemMod, path: &Path, folder: &Path, name: &str) -> Option<PathBuf> {
    let said = module.attrs.iter().find_map(|attribute| {
        let pair = attribute.meta.require_name_value().ok()?;
        match (&pair.value, pair.path.is_ident("path")) {
            (syn::Expr::Lit(literal), true) => match &literal.lit {
                syn::Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        }
    });
    if let Some(said) = said {
        return Some(path.parent()?.join(said));
    }
    let alone = folder.join(format!("{name}.rs"));
    let with_folder = folder.join(name).join("mod.rs");
    [alone, with_folder].into_iter().find(|file| file.exists())
}

/// The name of an item, and who may see it.
fn definition(item: &Item) -> Option<(String, Option<&Visibility>)> {
    let (name, vis) = match item {
        Item::Const(item) => (&item.ident, &item.vis),
        Item::Enum(item) => (&item.ident, &item.vis),
        Item::Fn(item) => (&item.sig.ident, &item.vis),
        Item::Static(item) => (&item.ident, &item.vis),
        Item::Struct(item) => (&item.ident, &item.vis),
        Item::Trait(item) => (&item.ident, &item.vis),
        Item::TraitAlias(item) => (&item.ident, &item.vis),
        Item::Type(item) => (&item.ident, &item.vis),
        Item::Union(item) => (&item.ident, &item.vis),
        Item::Macro(item) => return Some((item.ident.as_ref()?.to_string(), None)),
        _ => return None,
    };
    Some((name.to_string(), Some(vis)))
}

fn attributes(item: &Item) -> Option<&[Attribute]> {
    Some(match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => return None,
    })
}

/// `#[cfg(test)]`, `#[cfg(all(test, ...))]`, `#[cfg(doctest)]`.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    let words = |list: &syn::MetaList| list.tokens.to_string();
    attributes.iter().any(|attribute| {
        let Ok(list) = attribute.meta.require_list() else {
            return false;
        };
        let words = words(list);
        let is_test = |word: &str| matches!(word.trim(), "test" | "doctest" | "shuttle");
        list.path.is_ident("cfg")
            && !words.starts_with("not")
            && !words.starts_with("any")
            && words.split(['(', ')', ',']).any(is_test)
    })
}

fn flatten(tree: &UseTree, before: &mut Vec<String>, is_public: bool, uses: &mut Vec<Use>) {
    let mut add = |name: Option<String>, path: Vec<String>| {
        uses.push(Use {
            name,
            path,
            is_public,
        });
    };
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, is_public, uses);
            before.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            add(before.last().cloned(), before.clone());
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            add(Some(name.clone()), [before.as_slice(), &[name]].concat());
        }
        UseTree::Rename(rename) => {
            let mut path = before.clone();
            if rename.ident != "self" {
                path.push(rename.ident.to_string());
            }
            add(Some(rename.rename.to_string()), path);
        }
        UseTree::Glob(_) => add(None, before.clone()),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, before, is_public, uses);
            }
        }
    }
}

/// Collects paths of two and more words, those in macros' arguments included.
struct Paths<'p>(&'p mut Vec<Vec<String>>);

impl<'a> Visit<'a> for Paths<'_> {
    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.segments.len() > 1 {
            let words = path.segments.iter();
            self.0
                .push(words.map(|one| one.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'a Visibility) {}

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        let mut uses = Vec::new();
        flatten(&item.tree, &mut Vec::new(), false, &mut uses);
        self.0.extend(uses.into_iter().map(|one| one.path));
    }

    fn visit_macro(&mut self, called: &'a syn::Macro) {
        visit::visit_macro(self, called);
        tokens(called.tokens.clone(), self.0);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }
}

fn tokens(stream: TokenStream, paths: &mut Vec<Vec<String>>) {
    let (mut path, mut colons) = (Vec::new(), 0);
    let mut end = |path: &mut Vec<String>| {
        let path = std::mem::take(path);
        if path.len() > 1 {
            paths.push(path);
        }
    };
    let mut groups = Vec::new();
    for token in stream {
        match token {
            TokenTree::Ident(word) => {
                if colons != 2 {
                    end(&mut path);
                }
                path.push(word.to_string());
                colons = 0;
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
            other => {
                end(&mut path);
                colons = 0;
                if let TokenTree::Group(group) = other {
                    groups.push(group.stream());
                }
            }
        }
    }
    end(&mut path);
    groups.into_iter().for_each(|group| tokens(group, paths));
}
