//! A call, from its body to what it has used.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tidegate_llm::{
    Answer, Asked, Cost, Dialect, Provider, Received, Refusal, Request, Reserved, Signals, Usage,
};

use super::headers::headers;
use super::meter::{LlmMeter, units};
use super::signals::now;

/// What a request says.
pub(super) enum Body<'b> {
    /// Nobody can tell what its path asks for.
    Unclear,
    /// It uses no tokens.
    Passes(Asked),
    /// It uses tokens, by this body.
    Read(Asked, &'b [u8]),
}

/// What a call asks for, and what it has used.
#[pyclass(frozen, module = "tidegate._core")]
pub(crate) struct LlmCall {
    meter: Py<LlmMeter>,
    dialect: Dialect,
    provider: Provider,
    uses_tokens: bool,
    model: String,
    #[pyo3(get)]
    key: String,
    request: Request,
    reserved: Reserved,
    cost: Cost,
    /// Why it is not to be sent: a status, and words.
    #[pyo3(get)]
    refusal: Option<(u16, String)>,
    answering: Mutex<Answering>,
}

/// Its answer so far.
struct Answering {
    /// What the headers say.
    usage: Usage,
    answer: Answer,
    ended: bool,
}

impl LlmCall {
    pub(super) fn new(meter: Py<LlmMeter>, body: Body<'_>, key: String) -> Self {
        let mut call = Self {
            meter,
            dialect: Dialect::OpenAi,
            provider: Provider::Generic,
            uses_tokens: false,
            model: String::new(),
            key,
            request: Request::default(),
            reserved: Reserved {
                input: 0,
                output: 0,
            },
            cost: Cost::default(),
            refusal: None,
            answering: Mutex::new(Answering {
                usage: Usage::default(),
                answer: Answer::Nothing,
                ended: false,
            }),
        };
        match body {
            Body::Unclear => {
                let words = "a path has no `.` and `..`, and `%xx` stands for UTF-8";
                call.refusal = Some((400, words.to_owned()));
            }
            Body::Passes(asked) => call.speaks(asked.dialect),
            Body::Read(asked, body) => {
                call.speaks(asked.dialect);
                call.read_body(asked, body);
            }
        }
        call
    }

    /// In whose words it is: whose habits those are, unless that is said.
    fn speaks(&mut self, dialect: Dialect) {
        self.dialect = dialect;
        self.provider = self.meter.get().provider(match dialect {
            Dialect::OpenAi => Provider::OpenAi,
            Dialect::Anthropic => Provider::Anthropic,
            Dialect::Gemini => Provider::Gemini,
        });
    }

    fn read_body(&mut self, asked: Asked, body: &[u8]) {
        let meter = self.meter.get();
        self.uses_tokens = true;
        let mut request = match Request::read(&asked, body) {
            Ok(request) => request,
            Err(error) => {
                self.refusal = Some((400, error.to_string()));
                return;
            }
        };
        let model = asked.model.or(request.model.take()).unwrap_or_default();
        match meter.cost(&model) {
            Some(cost) => self.cost = cost,
            None => {
                let words = format!("model `{model}` has no price here, and a limit counts money");
                self.refusal = Some((400, words));
            }
        }
        let estimator = meter.estimator();
        let reserved = estimator.reserve(self.provider, &model, &self.key, &request);
        drop(estimator);
        self.reserved = reserved.at_least_one(asked.is_prompt_alone);
        (self.model, self.request) = (model, request);
    }

    fn answering(&self) -> MutexGuard<'_, Answering> {
        self.answering
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What is taken for it.
    fn taken<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.meter.get().amounts(py, |limit, counts| {
            if !self.uses_tokens {
                return 0;
            }
            // Nothing of an estimate is cached, whoever the provider is.
            let of = |usage: &Usage| units(limit, counts, Provider::Generic, usage, &self.cost);
            self.reserved.within(limit.at_most(), of)
        })
    }
}

#[pymethods]
impl LlmCall {
    /// What to take of the limits; `None` of a call of which none counts anything.
    fn requested<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let counts = self.uses_tokens || self.meter.get().counts_calls();
        counts.then(|| self.taken(py)).transpose()
    }

    /// An answer has begun: whether the call is `served`, `unserved`, or `lost` (it may have run and
    /// nobody knows what it used); and after how many seconds a provider that refused it is to be
    /// asked again.
    fn answered(&self, status: u16, headers: Vec<(String, String)>) -> (&'static str, Option<f64>) {
        let headers = self::headers(&headers);
        if status < 300 {
            let mut answering = self.answering();
            if self.uses_tokens {
                answering.usage = Usage::of_headers(&headers);
                answering.answer = Answer::begin(&headers);
            }
            return ("served", None);
        }
        let received = Received::new(now(), &headers);
        let signals = Signals::read(self.provider, &headers, received);
        let refused = Refusal::of(self.provider, status, &headers, &signals, &[], received);
        match refused {
            Some(refused) if refused.may_have_run => ("lost", None),
            Some(refused) if refused.kind.cools_down() => {
                let after = refused.retry_after.map(|after| after.as_duration());
                ("unserved", after.map(|after| after.as_secs_f64()))
            }
            _ => ("unserved", None),
        }
    }

    /// Reads on in the answer.
    fn read(&self, data: &[u8]) {
        self.answering().answer.read(data);
    }

    /// What it has used, once its answer has ended, whole if it is `complete`; `None` the second time.
    fn used<'py>(&self, py: Python<'py>, complete: bool) -> PyResult<Option<Bound<'py, PyDict>>> {
        let mut answering = self.answering();
        if std::mem::replace(&mut answering.ended, true) {
            return Ok(None);
        }
        let answer = std::mem::replace(&mut answering.answer, Answer::Nothing);
        let ended = answer.end(self.provider, &self.request, answering.usage, complete);
        drop(answering);
        let meter = self.meter.get();
        let usage = match ended.is_said() && self.uses_tokens {
            true => {
                let mut estimator = meter.estimator();
                estimator.learn(&self.model, &self.key, &self.request, &ended.said);
                ended.usage(self.reserved)
            }
            false => ended.by_length(self.reserved),
        };
        let Some(usage) = usage else {
            return self.taken(py).map(Some);
        };
        let used = meter.amounts(py, |limit, counts| {
            units(limit, counts, self.provider, &usage, &self.cost)
        });
        used.map(Some)
    }

    /// The body of an error in the words of its provider.
    #[pyo3(signature = (status, message, retry_after=None))]
    fn error<'py>(
        &self,
        py: Python<'py>,
        status: u16,
        message: &str,
        retry_after: Option<f64>,
    ) -> Bound<'py, PyBytes> {
        let after = retry_after.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let body = self.dialect.error(status, message, after);
        PyBytes::new(py, body.to_string().as_bytes())
    }
}
