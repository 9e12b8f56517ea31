//! What the last command about a key said of its calendars: what a node charges for it afterwards is
//! in the same windows.

use std::sync::Arc;

use tidegate_store::core::Bounds;
use tidegate_store::{Command, Plan, PlanLimit};

/// See the [module](self). Nothing where no limit follows a calendar.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calendars(Option<Arc<Said>>);

#[derive(Debug)]
struct Said {
    /// In the order of its limits.
    plan: Arc<Plan>,
    bounds: Box<[Option<Bounds>]>,
}

impl Calendars {
    /// `command` says so; an older plan's is no news.
    pub(crate) fn note(&mut self, command: &Command<'_>) {
        if command.calendars.is_empty() {
            return;
        }
        let is_news = self.0.as_ref().is_none_or(|said| {
            let (old, new) = (said.plan.version(), command.plan.version());
            new > old || (new == old && *said.bounds != *command.calendars)
        });
        if is_news {
            self.0 = Some(Arc::new(Said {
                plan: Arc::clone(command.plan),
                bounds: command.calendars.into(),
            }));
        }
    }

    /// The same in the order of `plan`, as a command has it.
    pub(crate) fn in_order_of(&self, plan: &Plan) -> Box<[Option<Bounds>]> {
        let Some(said) = &self.0 else {
            return Box::default();
        };
        let of = |limit: &PlanLimit| {
            let position = said.plan.position(limit.uid)?;
            said.bounds.get(position).copied().flatten()
        };
        plan.limits().iter().map(of).collect()
    }
}
