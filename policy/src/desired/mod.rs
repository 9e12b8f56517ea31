//! What a file says that a server is to keep beside its policies: entities, and overrides.
//!
//! ```toml
//! [entity.acme]
//! name = "Acme Inc."
//!
//! [entity.search]
//! parent = "acme"
//!
//! [[override]]
//! policy = "chat"
//! entity = "search"
//! limits.rpm = { calls = 1000, per = "1m" }
//! reason = "bought more"
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `bounds` | what an entity and a reason are held to |
//! | `entity` | one entity |
//! | `place` | one override: what it is for, and what the limits become |
//! | `tree` | whether entities can belong to each other as they say |
//! | `lines` | on which line something stands |

mod bounds;
mod entity;
mod lines;
mod place;
mod tree;

pub use bounds::{
    LONGEST_ENTITY_ID, LONGEST_METADATA, LONGEST_NAME, LONGEST_REASON, MOST_METADATA,
    wrong_entity_id, wrong_metadata, wrong_name, wrong_reason,
};
pub use entity::DesiredEntity;
pub use place::{DesiredKey, DesiredOverride, FIXED_SETTINGS};

use super::fault::{Faults, PolicyErrors};
use super::fields::Fields;
use super::file;
use super::language::Language;
use super::source::Source;
use lines::Lines;

/// The most entities, and the most overrides, of one file.
const MOST: usize = 100_000;

/// What a server is to keep; what is not named here stays as it is.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct DesiredState {
    /// The entities, in the order of the file; no two have the same id.
    pub entities: Vec<DesiredEntity>,
    /// The overrides, in the order of the file; no two say that they are for the same.
    pub overrides: Vec<DesiredOverride>,
}

/// Reads what a server is to keep from its text. `source_name` is what the errors call it,
/// usually the file's path; it tells the [`Language`] too.
///
/// # Errors
///
/// [`PolicyErrors`] has every fault of the file, not only the first.
///
/// ```
/// let text = "[entity.acme]\n[entity.search]\nparent = 'acme'\n";
/// let desired = tidegate_policy::parse_desired("limits.toml", text).unwrap();
/// assert_eq!(desired.entities[1].parent.as_deref(), Some("acme"));
/// assert_eq!(desired.entities[1].line, 2);
/// ```
pub fn parse_desired(source_name: &str, text: &str) -> Result<DesiredState, PolicyErrors> {
    let source = Source {
        name: source_name,
        text,
        language: Language::of(source_name),
    };
    let mut faults = Faults::new(&source);
    let tree = file::tree(&source, &mut faults);
    let fields = tree.as_ref().and_then(|tree| {
        let begin = "begin with `[entity.ID]` or `[[override]]`";
        file::fields(tree, begin, &mut faults)
    });
    let desired = fields.map(|fields| read(fields, &Lines::of(text), &mut faults));
    match desired.filter(|_| faults.is_empty()) {
        Some(desired) => Ok(desired),
        None => Err(faults.into_errors()),
    }
}

fn read(mut fields: Fields<'_>, lines: &Lines, faults: &mut Faults<'_>) -> DesiredState {
    let entities = fields.take("entity");
    let overrides = fields.take("override");
    if entities.is_none() && overrides.is_none() && fields.is_empty() {
        let help = "begin with `[entity.ID]` or `[[override]]`";
        faults.add(
            &(0..0),
            "the file has neither an entity nor an override",
            help,
        );
    }
    let what = "a file of entities and overrides";
    let help = "that stands in a server's file, which `tidegate policy plan FILE` holds against \
                a server";
    let others = ["policy", "server", "token", "price", "token-weight"];
    fields.elsewhere(&others, what, help, faults);
    fields.finish(what, &["entity", "override"], faults);
    let named = entities.and_then(|field| field.table("`[entity.ID]`", faults));
    let named = bounded(named.map(Fields::into_all), |field| &field.key_span, faults);
    let entities: Vec<_> = named
        .iter()
        .filter_map(|entry| {
            let entity = entity::read(entry, lines.of_span(&entry.key_span), faults)?;
            Some((entry.key_span.clone(), entity))
        })
        .collect();
    let items = overrides.map(|field| field.tables("`[[override]]`", faults));
    let items = bounded(items, |(span, _)| span, faults);
    let overrides: Vec<_> = items
        .into_iter()
        .filter_map(|(span, fields)| {
            let line = lines.of_span(&span);
            Some((span.clone(), place::read(fields, &span, line, faults)?))
        })
        .collect();
    tree::check(&entities, faults);
    place::check(&overrides, &entities, faults);
    DesiredState {
        entities: entities.into_iter().map(|(_, entity)| entity).collect(),
        overrides: overrides.into_iter().map(|(_, said)| said).collect(),
    }
}

/// So many and no more.
fn bounded<T>(
    items: Option<Vec<T>>,
    span: impl Fn(&T) -> &std::ops::Range<usize>,
    faults: &mut Faults<'_>,
) -> Vec<T> {
    let mut items = items.unwrap_or_default();
    if let Some(beyond) = items.get(MOST) {
        let help = format!("write {MOST} at most, and the rest into another file");
        faults.add(span(beyond), "this is one too many", help);
        items.truncate(MOST);
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> DesiredState {
        parse_desired("t.toml", text).unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// Line and message of each fault.
    fn faults(text: &str) -> Vec<(usize, String)> {
        let errors = parse_desired("t.toml", text).expect_err(text);
        let one = |fault: &super::super::Fault| (fault.line, fault.message.clone());
        errors.faults().iter().map(one).collect()
    }

    #[test]
    fn entities_and_overrides_are_read_with_their_lines() {
        let desired = read(
            "[entity.search]\nparent = 'acme'\nname = 'Search'\nmetadata = { tier = 'gold' }\n\
             charge_parents = false\n[entity.acme]\n[entity.\"a/b\"]\nabsent = true\n\n\
             [[override]]\npolicy = 'chat'\nentity = 'search'\nreason = 'trial'\n\
             expires_at = 2030-12-31T23:59:59Z\nlimits.rpm = { calls = 5, per = '1m' }\n\
             [[override]]\neverywhere = true\nabsent = true\n",
        );
        let [search, acme, gone] = &desired.entities[..] else {
            panic!("{desired:?}");
        };
        assert_eq!((search.line, acme.line, gone.line), (1, 6, 7));
        assert_eq!(search.charge_parents, Some(false));
        assert_eq!(search.metadata.as_ref().map(|words| words.len()), Some(1));
        assert!((acme.name.is_none(), gone.absent, &*gone.id) == (true, true, "a/b"));
        let [given, removed] = &desired.overrides[..] else {
            panic!("{desired:?}");
        };
        assert_eq!((given.line, removed.line), (10, 16));
        assert_eq!(given.key, Some(DesiredKey::Entity("search".to_owned())));
        assert_eq!(
            given.expires_at,
            "2030-12-31T23:59:59Z".parse::<jiff::Timestamp>().ok()
        );
        assert_eq!(
            given.limits.names().collect::<Vec<_>>(),
            ["rpm"],
            "{given:?}"
        );
        assert!(removed.absent && removed.policy.is_none() && removed.key.is_none());
    }

    #[cfg(feature = "yaml")]
    #[test]
    fn the_same_is_read_as_yaml_and_json() {
        let toml = read(
            "entity.acme.name = 'A'\n[[override]]\nkey = 'acme'\n\
             limits.rpm = { calls = 5, per = '1m' }\nexpires_at = '2030-01-01T00:00:00Z'\n",
        );
        let texts = [
            (
                "t.yaml",
                "entity: {acme: {name: A}}\noverride:\n- key: acme\n  limits: {rpm: {calls: 5, \
                 per: 1m}}\n  expires_at: 2030-01-01T00:00:00Z\n",
            ),
            (
                "t.json",
                "{\"entity\": {\"acme\": {\"name\": \"A\"}}, \"override\": [{\"key\": \"acme\", \
                 \"limits\": {\"rpm\": {\"calls\": 5, \"per\": \"1m\"}}, \
                 \"expires_at\": \"2030-01-01T00:00:00Z\"}]}",
            ),
        ];
        for (name, text) in texts {
            let read = parse_desired(name, text).unwrap_or_else(|errors| panic!("{errors}"));
            let without_lines = |desired: &DesiredState| {
                let mut desired = desired.clone();
                desired.entities.iter_mut().for_each(|one| one.line = 0);
                desired.overrides.iter_mut().for_each(|one| one.line = 0);
                desired
            };
            assert_eq!(without_lines(&read), without_lines(&toml), "{name}");
        }
    }

    /// Both sorts of file are called `limits.toml` by those who write one: told to write
    /// `entity`, they took their policies for that.
    #[test]
    fn a_file_of_the_other_sort_is_told_which_command_takes_it() {
        let told = |errors: PolicyErrors| errors.to_string();
        let policies = "[policy.p.limits]\nr = { calls = 1, per = '1s' }\n";
        let wrong = told(parse_desired("limits.toml", policies).unwrap_err());
        assert!(wrong.contains("`tidegate policy plan FILE`"), "{wrong}");
        for entities in ["[entity.a]\n", "[[override]]\nkey = 'a'\nabsent = true\n"] {
            let wrong = told(crate::parse("limits.toml", entities).unwrap_err());
            assert!(wrong.contains("`tidegate limits plan FILE`"), "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let long = "x".repeat(257);
        for (text, expected) in [
            (
                "",
                vec![(1, "the file has neither an entity nor an override")],
            ),
            (
                "[entiy.a]\n",
                vec![(
                    1,
                    "`entiy` is not a setting of a file of entities and overrides",
                )],
            ),
            (
                "[policy.p.limits]\nr = { calls = 1, per = '1s' }\n[[token]]\nname = 'a'\n",
                vec![
                    (
                        1,
                        "`policy` is not a setting of a file of entities and overrides",
                    ),
                    (
                        3,
                        "`token` is not a setting of a file of entities and overrides",
                    ),
                ],
            ),
            (
                "[entity.a]\nnam = 'x'\n",
                vec![(2, "`nam` is not a setting of an entity")],
            ),
            ("[entity.'..']\n", vec![(1, "`..` is no entity's id")]),
            (
                "[entity.a]\nparent = 3\n",
                vec![(2, "`parent` is a whole number; it must be a string")],
            ),
            (
                "[entity.a]\nabsent = true\nname = 'x'\n",
                vec![(3, "`a` is to be absent, and has a `name`")],
            ),
            (
                "[entity.a]\nparent = 'b'\n[entity.b]\nparent = 'a'\n",
                vec![
                    (1, "`a` would be one of its own ancestors"),
                    (3, "`b` would be one of its own ancestors"),
                ],
            ),
            (
                "[entity.a]\nparent = 'b'\n[entity.b]\nabsent = true\n",
                vec![(1, "`a` is to belong to `b`, which is to be absent")],
            ),
            (
                "[[override]]\nlimits.rpm = { calls = 1, per = '1m' }\n",
                vec![(1, "this override does not say what it is for")],
            ),
            (
                "[[override]]\npolicy = 'p'\nkey = 'a'\nentity = 'b'\nabsent = true\n",
                vec![(4, "an override is for one key or one entity, and no more")],
            ),
            (
                "[[override]]\npolicy = 'p'\neverywhere = true\nabsent = true\n",
                vec![(3, "this override is for something, and not for everything")],
            ),
            (
                "[[override]]\npolicy = 'p'\n",
                vec![(1, "this override has no limits")],
            ),
            (
                "[[override]]\npolicy = 'p'\nlimits.rpm = { calls = 0, per = '1m' }\n",
                vec![(3, "`calls` is 0, which is out of range")],
            ),
            (
                "[[override]]\npolicy = 'p'\nlimits.rpm = { calls = 1, per = '1m', level = 'o' }\n",
                vec![(3, "`level` stays as the policy has it")],
            ),
            (
                "[[override]]\npolicy = 'p'\nabsent = true\nreason = 'x'\n",
                vec![(4, "this override is to be absent, and has a `reason`")],
            ),
            (
                "[[override]]\npolicy = 'p'\nexpires_at = 'soon'\n\
                 limits.rpm = { calls = 1, per = '1m' }\n",
                vec![(3, "`soon` is no instant")],
            ),
            (
                "[[override]]\npolicy = 'p'\nabsent = true\n[[override]]\npolicy = 'p'\n\
                 absent = true\n",
                vec![(4, "there is an override for the same on line 1")],
            ),
            (
                "[entity.a]\nabsent = true\n[[override]]\nentity = 'a'\n\
                 limits.rpm = { calls = 1, per = '1m' }\n",
                vec![(3, "this override is for `a`, which is to be absent")],
            ),
            (
                &*format!("[entity.{long}]\n"),
                vec![(1, &*format!("`{long}` is no entity's id"))],
            ),
        ] {
            let told = faults(text);
            let told: Vec<_> = told.iter().map(|(line, said)| (*line, &**said)).collect();
            assert_eq!(told, expected, "{text}");
        }
    }

    #[test]
    fn an_entity_has_seven_ancestors_at_most() {
        let chain = |count: usize| {
            let one = |at: usize| format!("[entity.e{at}]\nparent = 'e{}'\n", at + 1);
            (0..count).map(one).collect::<String>()
        };
        read(&chain(7));
        let told = faults(&chain(8));
        assert_eq!(
            told,
            [(1, "`e0` would have more than 7 ancestors".to_owned())]
        );
    }
}
