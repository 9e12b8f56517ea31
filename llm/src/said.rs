//! What a JSON body says of its usage, read in one pass that keeps nothing else of it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tidegate_core::Amount;

use crate::name;
use crate::request::Known;

/// What a body says of its usage; nothing of one that is no JSON object.
pub(super) fn of(body: &[u8]) -> Said {
    let read = serde_json::from_slice(body);
    read.map_or_else(
        |_| Said::default(),
        |Object(body): Object<Around>| body.said,
    )
}

/// What each object of a list says, one after the other; of a list that breaks off, each that came whole.
pub(super) fn of_each(body: &[u8], hears: impl FnMut(&Said)) {
    // What was heard until an error is heard.
    let _ = serde_json::Deserializer::from_slice(body).deserialize_seq(Each(hears));
}

struct Each<F>(F);

impl<'de, F: FnMut(&Said)> Visitor<'de> for Each<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        while let Some(Object(item)) = items.next_element::<Object<Around>>()? {
            (self.0)(&item.said);
        }
        Ok(())
    }
}

/// A name of a member. Of two names for the same the one counts that has the smaller number.
#[derive(Clone, Copy)]
enum Name {
    /// An object that says usage.
    Usage(u8),
    /// An object that has one that does.
    Around(u8),
    Prompt(u8),
    Answer(u8),
    /// Anthropic and Bedrock count what came out of a cache apart; OpenAI and Gemini within.
    CachedApart(u8),
    CachedWithin,
    CacheWritten(u8),
    /// Gemini counts its thoughts beside the answer, and a tool's prompts beside the prompt.
    Thoughts,
    PromptOfTool,
    Reasoning,
    /// An object that has what came out of a cache, or what was thought, within.
    Details,
    Other,
}

impl Name {
    fn of(name: &str) -> Self {
        match name {
            "usage" => Self::Usage(0),
            "message" => Self::Around(1),
            "response" => Self::Around(2),
            "usageMetadata" => Self::Usage(3),
            "prompt_tokens" => Self::Prompt(0),
            "input_tokens" => Self::Prompt(1),
            "promptTokenCount" => Self::Prompt(2),
            "inputTokens" => Self::Prompt(3),
            "completion_tokens" => Self::Answer(0),
            "output_tokens" => Self::Answer(1),
            "candidatesTokenCount" => Self::Answer(2),
            "outputTokens" => Self::Answer(3),
            "cache_read_input_tokens" => Self::CachedApart(0),
            "cacheReadInputTokens" => Self::CachedApart(1),
            "cached_tokens" | "cachedContentTokenCount" => Self::CachedWithin,
            "cache_creation_input_tokens" => Self::CacheWritten(0),
            "cacheWriteInputTokens" => Self::CacheWritten(1),
            "thoughtsTokenCount" => Self::Thoughts,
            "toolUsePromptTokenCount" => Self::PromptOfTool,
            "reasoning_tokens" => Self::Reasoning,
            "prompt_tokens_details"
            | "input_tokens_details"
            | "completion_tokens_details"
            | "output_tokens_details" => Self::Details,
            _ => Self::Other,
        }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(name: D) -> Result<Self, D::Error> {
        name::read(name, Self::of)
    }
}

/// An amount under the best of its names so far.
#[derive(Default)]
pub(super) struct Best(Option<(u8, Amount)>);

impl Best {
    fn hear(&mut self, rank: u8, amount: Option<Amount>) {
        if let Some(amount) = amount
            && self.0.is_none_or(|(known, _)| rank <= known)
        {
            self.0 = Some((rank, amount));
        }
    }

    pub(super) fn amount(&self) -> Option<Amount> {
        self.0.map(|(_, amount)| amount)
    }
}

/// The members of an object that says usage.
#[derive(Default)]
pub(super) struct Said {
    pub(super) prompt: Best,
    pub(super) answer: Best,
    /// Out of a cache, and not part of the prompt.
    pub(super) cached_apart: Best,
    /// Out of a cache, and part of the prompt.
    pub(super) cached_within: Option<Amount>,
    pub(super) cache_written: Best,
    /// Beside the answer.
    pub(super) thoughts: Option<Amount>,
    /// Beside the prompt.
    pub(super) prompt_of_tool: Option<Amount>,
    pub(super) reasoning: Option<Amount>,
    /// Whether there was any.
    says_something: bool,
}

impl Members for Said {
    fn read<'de, A: MapAccess<'de>>(&mut self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<Name>()? {
            if let Name::Details = name {
                let details = members.next_value::<Object<Self>>()?.0;
                self.cached_within = details.cached_within.or(self.cached_within);
                self.reasoning = details.reasoning.or(self.reasoning);
                self.says_something |= details.says_something;
                continue;
            }
            let amount = members.next_value::<Known>()?.amount;
            self.says_something |= amount.is_some() && !matches!(name, Name::Other);
            match name {
                Name::Prompt(rank) => self.prompt.hear(rank, amount),
                Name::Answer(rank) => self.answer.hear(rank, amount),
                Name::CachedApart(rank) => self.cached_apart.hear(rank, amount),
                Name::CacheWritten(rank) => self.cache_written.hear(rank, amount),
                Name::CachedWithin => self.cached_within = amount.or(self.cached_within),
                Name::Thoughts => self.thoughts = amount,
                Name::PromptOfTool => self.prompt_of_tool = amount,
                Name::Reasoning => self.reasoning = amount.or(self.reasoning),
                _ => {}
            }
        }
        Ok(())
    }
}

/// A body, or what stands around usage in one.
#[derive(Default)]
struct Around {
    rank: u8,
    said: Said,
}

impl Around {
    /// Of several places the first counts that says something.
    fn hear(&mut self, rank: u8, said: Said) {
        if said.says_something && (!self.said.says_something || rank < self.rank) {
            *self = Self { rank, said };
        }
    }
}

impl Members for Around {
    fn read<'de, A: MapAccess<'de>>(&mut self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<Name>()? {
            match name {
                Name::Usage(rank) => {
                    let said = members.next_value::<Object<Said>>()?.0;
                    self.hear(rank, said);
                }
                Name::Around(rank) => {
                    let around = members.next_value::<Object<Self>>()?.0;
                    self.hear(rank, around.said);
                }
                _ => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// What reads the members of an object.
trait Members: Default {
    fn read<'de, A: MapAccess<'de>>(&mut self, members: A) -> Result<(), A::Error>;
}

/// An object; of any other value nothing.
struct Object<M>(M);

impl<'de, M: Members> Deserialize<'de> for Object<M> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(Look(M::default())).map(Self)
    }
}

struct Look<M>(M);

impl<'de, M: Members> Visitor<'de> for Look<M> {
    type Value = M;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, members: A) -> Result<M, A::Error> {
        self.0.read(members)?;
        Ok(self.0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<M, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self.0)
    }

    fn visit_unit<E>(self) -> Result<M, E> {
        Ok(self.0)
    }

    fn visit_bool<E>(self, _: bool) -> Result<M, E> {
        Ok(self.0)
    }

    fn visit_u64<E>(self, _: u64) -> Result<M, E> {
        Ok(self.0)
    }

    fn visit_i64<E>(self, _: i64) -> Result<M, E> {
        Ok(self.0)
    }

    fn visit_f64<E>(self, _: f64) -> Result<M, E> {
        Ok(self.0)
    }

    fn visit_str<E>(self, _: &str) -> Result<M, E> {
        Ok(self.0)
    }
}
