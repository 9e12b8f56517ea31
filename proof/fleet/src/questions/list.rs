//! All questions.

use super::{answers, beside, crowd, hot, paused, reloaded, retried, rolled, tiered, told, woken};
use crate::question::Question;

/// All of them, in the order of the page.
pub const QUESTIONS: &[Question] = &[
    answers::QUESTION,
    tiered::QUESTION,
    retried::QUESTION,
    woken::QUESTION,
    told::QUESTION,
    reloaded::QUESTION,
    rolled::QUESTION,
    beside::QUESTION,
    hot::QUESTION,
    paused::DEADLINE,
    paused::OTHERS,
    crowd::QUESTION,
];
