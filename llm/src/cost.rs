//! What tokens of models cost and how much they count, as an operator writes it.

use crate::price::{Price, Prices};
use crate::weight::{Weight, Weights};

/// Of one model.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cost {
    /// What its tokens cost.
    pub price: Price,
    /// How much they count.
    pub weight: Weight,
}

/// Of all models.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Costs {
    /// What tokens cost.
    pub prices: Prices,
    /// How much they count.
    pub weights: Weights,
}
