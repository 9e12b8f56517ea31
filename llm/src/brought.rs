//! The texts that an event of an answer's stream brings.
//!
//! They stand in `delta` (Anthropic's, OpenAI's responses), in `delta` or `text` of a choice (OpenAI's) and
//! in `content` of a candidate (Gemini's), whatever their names are there: an answer, what was thought,
//! the arguments of a tool.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use crate::name;
use crate::request::Length;
use crate::surrogate;

/// Adds those of an event to `length`; nothing of one that is no JSON object.
pub(super) fn add(event: &[u8], length: &mut Length) {
    let before = length.clone();
    if measure(event, length).is_err()
        && let Some(mended) = surrogate::mended(event)
    {
        *length = before;
        let _ = measure(&mended, length);
    }
}

fn measure(event: &[u8], length: &mut Length) -> serde_json::Result<()> {
    let place = Place::Event;
    let mut reader = serde_json::Deserializer::from_slice(event);
    Measure { length, place }.deserialize(&mut reader)
}

/// What stands there.
#[derive(Clone, Copy)]
enum Place {
    Event,
    /// One of several answers, or all of them.
    Answers,
    /// Texts.
    Texts,
}

/// What a member is called.
#[derive(Clone, Copy)]
enum Name {
    Delta,
    Answers,
    Content,
    Text,
    /// It says what a text is, or stands for a text of another event; or is no text: a sound, a
    /// picture, a signature.
    About,
    Other,
}

impl Name {
    fn of(name: &str) -> Self {
        match name {
            "delta" => Self::Delta,
            "choices" | "candidates" => Self::Answers,
            "content" => Self::Content,
            "text" => Self::Text,
            "data" | "encrypted_content" | "finish_reason" | "id" | "obfuscation" | "role"
            | "signature" | "stop_reason" | "thoughtSignature" | "type" => Self::About,
            _ => Self::Other,
        }
    }
}

impl Place {
    /// What stands behind a name there.
    const fn behind(self, name: Name) -> Option<Self> {
        match (self, name) {
            (Self::Event, Name::Answers) => Some(Self::Answers),
            (Self::Event | Self::Answers, Name::Delta)
            | (Self::Answers, Name::Content | Name::Text) => Some(Self::Texts),
            (Self::Event | Self::Answers, _) | (Self::Texts, Name::About) => None,
            (Self::Texts, _) => Some(Self::Texts),
        }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(name: D) -> Result<Self, D::Error> {
        name::read(name, Self::of)
    }
}

/// Measures the texts of what stands there.
struct Measure<'l> {
    length: &'l mut Length,
    place: Place,
}

impl<'de> DeserializeSeed<'de> for Measure<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Measure<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if let Place::Texts = self.place {
            self.length.add(text);
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { length, place } = self;
        while items
            .next_element_seed(Measure { length, place })?
            .is_some()
        {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { length, place } = self;
        while let Some(name) = members.next_key::<Name>()? {
            let Some(place) = place.behind(name) else {
                members.next_value::<IgnoredAny>()?;
                continue;
            };
            members.next_value_seed(Measure { length, place })?;
        }
        Ok(())
    }
}
