//! The languages that a file can be written in.

/// How a text is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Language {
    /// TOML 1.0.
    #[default]
    Toml,
    /// YAML 1.2, and with it JSON; read with the feature `yaml`.
    Yaml,
}

impl Language {
    /// The language of a file of this name: YAML if it ends in `.yaml`, `.yml`
    /// or `.json`, TOML otherwise.
    #[must_use]
    pub fn of(file_name: &str) -> Self {
        let ending = file_name.rsplit_once('.').map(|(_, ending)| ending);
        let ending = ending.unwrap_or_default().to_ascii_lowercase();
        match ending.as_str() {
            "yaml" | "yml" | "json" => Self::Yaml,
            _ => Self::Toml,
        }
    }

    /// What to write, in this language: help is thought of in TOML.
    pub(super) fn rewrite(self, help: String) -> String {
        match self {
            Self::Toml => help,
            Self::Yaml => {
                let parts = help.split('`').enumerate();
                let parts = parts.map(|(at, part)| match at % 2 {
                    0 => part.to_owned(),
                    _ => format!("`{}`", yaml(part)),
                });
                parts.collect()
            }
        }
    }
}

/// A piece of TOML as a piece of YAML.
fn yaml(toml: &str) -> String {
    match toml
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        // A list of tables is an entry of a list.
        Some(inner) if inner.starts_with('[') => {
            format!("{}: [{{ ... }}]", inner.trim_matches(['[', ']']))
        }
        Some(path) => path
            .split('.')
            .map(|name| format!("{name}:"))
            .collect::<Vec<_>>()
            .join("` > `"),
        None => toml.replace(" = ", ": "),
    }
}

#[cfg(test)]
mod tests {
    use super::Language;

    #[test]
    fn a_language_is_told_by_the_files_name() {
        for (name, language) in [
            ("a.toml", Language::Toml),
            ("a/b.yaml", Language::Yaml),
            ("B.YML", Language::Yaml),
            ("x.json", Language::Yaml),
            ("policies", Language::Toml),
        ] {
            assert_eq!(Language::of(name), language, "{name}");
        }
    }

    #[test]
    fn help_is_given_in_the_files_language() {
        for (toml, yaml) in [
            ("write `calls = 3`", "write `calls: 3`"),
            (
                "under `[policy.a.limits]`, please",
                "under `policy:` > `a:` > `limits:`, please",
            ),
            ("write `[[token]]`", "write `token: [{ ... }]`"),
            ("write 1 to 9", "write 1 to 9"),
        ] {
            assert_eq!(Language::Yaml.rewrite(toml.into()), yaml);
            assert_eq!(Language::Toml.rewrite(toml.into()), toml);
        }
    }
}
