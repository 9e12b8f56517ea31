//! One operation: its path and its handler, and what the document says of it. What it takes
//! is read off the handler's arguments.

use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::JsonSchema;
#[cfg(test)]
use serde_json::{Map, Value, json};

use crate::app::App;
#[cfg(test)]
use crate::openapi::headers::{of_limits, version};
#[cfg(test)]
use crate::openapi::problems;
use crate::openapi::schema::Schemas;
use crate::openapi::takes::{Taken, Takes};

/// The body of an answer, by media type.
#[cfg(test)]
type Content = fn(&mut Schemas) -> Value;

/// What a client can do.
pub(crate) struct Operation {
    pub(crate) path: &'static str,
    pub(crate) handler: MethodRouter<App>,
    method: &'static str,
    #[cfg(test)]
    takes: fn(&mut Taken, &mut Schemas),
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    description: String,
    answer: (u16, &'static str),
    #[cfg(test)]
    content: Option<Content>,
    problems: Vec<u16>,
    /// Answers that this operation alone gives, by status.
    others: Vec<(&'static str, &'static str)>,
    is_open: bool,
    tells_limits: bool,
    tells_version: bool,
}

pub(crate) fn get<T: Takes + 'static>(path: &'static str, by: impl Handler<T, App>) -> Operation {
    Operation::new(path, "get", on(MethodFilter::GET, by), T::takes)
}

pub(crate) fn post<T: Takes + 'static>(path: &'static str, by: impl Handler<T, App>) -> Operation {
    Operation::new(path, "post", on(MethodFilter::POST, by), T::takes)
}

pub(crate) fn put<T: Takes + 'static>(path: &'static str, by: impl Handler<T, App>) -> Operation {
    Operation::new(path, "put", on(MethodFilter::PUT, by), T::takes)
}

pub(crate) fn delete<T: Takes + 'static>(
    path: &'static str,
    by: impl Handler<T, App>,
) -> Operation {
    Operation::new(path, "delete", on(MethodFilter::DELETE, by), T::takes)
}

pub(crate) fn patch<T: Takes + 'static>(path: &'static str, by: impl Handler<T, App>) -> Operation {
    Operation::new(path, "patch", on(MethodFilter::PATCH, by), T::takes)
}

impl Operation {
    fn new(
        path: &'static str,
        method: &'static str,
        handler: MethodRouter<App>,
        #[cfg_attr(
            not(test),
            expect(unused_variables, reason = "the document is made by a test")
        )]
        takes: fn(&mut Taken, &mut Schemas),
    ) -> Self {
        Self {
            path,
            handler,
            method,
            #[cfg(test)]
            takes,
            id: "",
            tag: "",
            summary: "",
            description: String::new(),
            answer: (200, ""),
            #[cfg(test)]
            content: None,
            problems: Vec::new(),
            others: Vec::new(),
            is_open: false,
            tells_limits: false,
            tells_version: false,
        }
    }

    /// What programs call it, and its group.
    pub(crate) fn named(mut self, id: &'static str, tag: &'static str) -> Self {
        (self.id, self.tag) = (id, tag);
        self
    }

    /// What it does, in a few words.
    pub(crate) fn summary(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    /// A paragraph about it.
    pub(crate) fn about(mut self, paragraph: &str) -> Self {
        if !self.description.is_empty() {
            self.description.push_str("\n\n");
        }
        self.description.push_str(paragraph);
        self
    }

    /// The scope that a token needs.
    pub(crate) fn scope(self, scope: &str) -> Self {
        self.about(&format!("Scope: {scope}."))
    }

    /// It needs no token.
    pub(crate) fn for_everyone(mut self) -> Self {
        self.is_open = true;
        self.about("For everyone.")
    }

    /// It answers 200 with this.
    pub(crate) fn answers<T: JsonSchema>(self, description: &'static str) -> Self {
        Self {
            #[cfg(test)]
            content: Some(|schemas| json!({"application/json": {"schema": schemas.answer::<T>()}})),
            ..self.done(200, description)
        }
    }

    /// Its answer tells of limits in the fields of its head.
    pub(crate) fn with_limits(mut self) -> Self {
        self.tells_limits = true;
        self
    }

    /// Its answer has an `ETag`, where it is about one override or entity.
    pub(crate) fn with_version(mut self) -> Self {
        self.tells_version = true;
        self
    }

    /// It answers 200 with a text.
    pub(crate) fn answers_text(self, description: &'static str) -> Self {
        Self {
            #[cfg(test)]
            content: Some(|_| json!({"text/plain": {"schema": {"type": "string"}}})),
            ..self.done(200, description)
        }
    }

    /// It answers with this status, and no body.
    pub(crate) fn done(mut self, status: u16, description: &'static str) -> Self {
        self.answer = (status, description);
        self
    }

    /// It may answer with these statuses too, beside those of what it takes.
    pub(crate) fn or(mut self, statuses: &[u16]) -> Self {
        self.problems.extend(statuses);
        self
    }

    /// It may answer with a problem of its own.
    pub(crate) fn or_else(mut self, status: &'static str, description: &'static str) -> Self {
        self.others.push((status, description));
        self
    }

    /// The path, the method, and the operation as the document has it.
    #[cfg(test)]
    pub(crate) fn describe(&self, schemas: &mut Schemas) -> (&'static str, &'static str, Value) {
        let mut taken = Taken::default();
        (self.takes)(&mut taken, schemas);
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "description": self.description,
        });
        if self.is_open {
            operation["security"] = json!([]);
        }
        if !taken.parameters.is_empty() {
            operation["parameters"] = std::mem::take(&mut taken.parameters).into();
        }
        if !taken.body.is_empty() {
            let content = std::mem::take(&mut taken.body);
            operation["requestBody"] = json!({"required": true, "content": content});
        }
        operation["responses"] = self.responses(&taken, schemas).into();
        (self.path, self.method, operation)
    }

    #[cfg(test)]
    fn responses(&self, taken: &Taken, schemas: &mut Schemas) -> Map<String, Value> {
        let (status, description) = self.answer;
        let mut response = json!({"description": description});
        if let Some(content) = self.content {
            response["content"] = content(schemas);
        }
        if taken.is_styled || self.tells_limits {
            response["headers"] = of_limits().into();
        }
        if self.tells_version {
            response["headers"] = json!({"ETag": version()});
        }
        let mut responses = vec![(status.to_string(), response)];
        for (status, description) in &self.others {
            let content = problems::problem::<crate::error::Problem>(schemas);
            let response = json!({"description": description, "content": content});
            responses.push(((*status).to_owned(), response));
        }
        let wrong = taken.wrong.iter().chain(&self.problems);
        responses.extend(wrong.map(|status| (status.to_string(), problems::reference(*status))));
        responses.sort_by(|(one, _), (other, _)| one.cmp(other));
        // What an operation says itself stands before what is shared.
        responses.dedup_by(|(later, _), (first, _)| later == first);
        responses.into_iter().collect()
    }
}
