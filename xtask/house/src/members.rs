//! What can be written after a public type.

use quote::ToTokens;
use syn::{Attribute, Fields, ImplItem, Item, TraitItem, Visibility};

/// The members of the types that an item is about, each with the path of its type.
pub fn of(item: &Item) -> Vec<(Vec<String>, String)> {
    match item {
        Item::Impl(item) if item.trait_.is_none() => {
            let syn::Type::Path(path) = &*item.self_ty else {
                return Vec::new();
            };
            let words = path.path.segments.iter();
            let of: Vec<_> = words.map(|word| word.ident.to_string()).collect();
            let members = item.items.iter().filter_map(inherent);
            members.map(|member| (of.clone(), member)).collect()
        }
        Item::Struct(item) => {
            let of = vec![item.ident.to_string()];
            let fields = fields(&item.fields, true).into_iter();
            fields.map(|field| (of.clone(), field)).collect()
        }
        Item::Enum(item) => {
            let of = vec![item.ident.to_string()];
            let variant = |one: &syn::Variant| {
                let fields = fields(&one.fields, false).join(", ");
                match one.fields {
                    Fields::Unit => one.ident.to_string(),
                    Fields::Named(_) => format!("{} {{ {fields} }}", one.ident),
                    Fields::Unnamed(_) => format!("{}({fields})", one.ident),
                }
            };
            let variants = item.variants.iter().map(variant);
            variants.map(|variant| (of.clone(), variant)).collect()
        }
        Item::Trait(item) => {
            let of = vec![item.ident.to_string()];
            let items = item.items.iter().filter_map(of_trait);
            items.map(|one| (of.clone(), one)).collect()
        }
        _ => Vec::new(),
    }
}

fn of_trait(item: &TraitItem) -> Option<String> {
    match item {
        TraitItem::Fn(function) if is_hidden(&function.attrs) => None,
        TraitItem::Fn(function) => Some(text(&function.sig)),
        TraitItem::Const(item) => Some(format!("const {}: {}", item.ident, text(&item.ty))),
        TraitItem::Type(item) => Some(format!("type {}", item.ident)),
        _ => None,
    }
}

fn inherent(item: &ImplItem) -> Option<String> {
    match item {
        ImplItem::Fn(item) if is_hidden(&item.attrs) => None,
        ImplItem::Fn(item) if matches!(item.vis, Visibility::Public(_)) => Some(text(&item.sig)),
        ImplItem::Const(item) if matches!(item.vis, Visibility::Public(_)) => {
            Some(format!("const {}: {}", item.ident, text(&item.ty)))
        }
        _ => None,
    }
}

fn fields(fields: &Fields, only_public: bool) -> Vec<String> {
    let is_public = |field: &&syn::Field| matches!(field.vis, Visibility::Public(_));
    let shown = fields
        .iter()
        .filter(|field| !only_public || is_public(field));
    let shown = shown.map(|field| match &field.ident {
        Some(name) => format!("{name}: {}", text(&field.ty)),
        None => text(&field.ty),
    });
    shown.collect()
}

/// `#[doc(hidden)]`: others can write it, and nobody is told of it.
pub fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        list.is_ok_and(|list| list.path.is_ident("doc") && list.tokens.to_string() == "hidden")
    })
}

/// Code on one line, without the spaces that nobody writes.
fn text(code: &impl ToTokens) -> String {
    let mut text = code.to_token_stream().to_string();
    for (from, to) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" < ", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" ,", ","),
        (",)", ")"),
        (", )", ")"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" : ", ": "),
        ("& ", "&"),
        ("' ", "'"),
        (" ;", ";"),
        ("[ ", "["),
        (" ]", "]"),
    ] {
        text = text.replace(from, to);
    }
    text.replace("->", " -> ").replace("  ", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(code: &str) -> Vec<String> {
        let file = syn::parse_file(code).expect("sound code");
        let all = file.items.iter().flat_map(of);
        all.map(|(of, member)| format!("{}: {member}", of.join("::")))
            .collect()
    }

    #[test]
    fn what_is_public_is_listed_with_its_signature() {
        let code = "
            pub struct Lease { pub id: u64, secret: u64 }
            impl<'a> Lease {
                pub fn settle(&mut self, used: impl Into<Request<'a>>) -> Result<(), Error> { Ok(()) }
                pub const MOST: usize = 3;
                fn inner(&self) {}
                pub(crate) fn ours(&self) {}
                #[doc(hidden)]
                pub fn hidden(&self) {}
            }
            impl Drop for Lease { fn drop(&mut self) {} }
            pub enum End { Released, Settled(u64), Failed { why: String } }
            pub trait Store { fn open(&self, name: &str) -> Table; }
        ";
        let listed = [
            "Lease: id: u64",
            "Lease: fn settle(&mut self, used: impl Into<Request<'a>>) -> Result<(), Error>",
            "Lease: const MOST: usize",
            "End: Released",
            "End: Settled(u64)",
            "End: Failed { why: String }",
            "Store: fn open(&self, name: &str) -> Table",
        ];
        assert_eq!(members(code), listed);
    }
}
