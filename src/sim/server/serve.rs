//! From an HTTP request to its answer: read, log, judge by the faults, carry out, answer.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use super::call::Call;
use super::delete::{self, DeleteOptions};
use super::faults::{Fault, Ruling};
use super::log::Verb;
use super::refusal::Refusal;
use super::resources::Kind;
use super::store::ObjectKey;
use super::watch::{self, Wish};
use super::write::Method;
use super::{Cluster, State, discovery, patch};

pub(super) type Answer = http::Response<UnsyncBoxBody<Bytes, Infallible>>;

/// What carrying out a request gave.
enum Outcome {
    Text(u16, String),
    Watch(Box<Wish>),
}

impl Cluster {
    /// Serves one request of a client.
    pub(super) async fn serve(
        self,
        user_agent: String,
        request: http::Request<Body>,
    ) -> Result<Answer, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let call = match Call::read(&user_agent, &parts, &body) {
            Ok(Some(call)) => call,
            Ok(None) => return self.serve_other(&user_agent, parts.uri.path()).await,
            Err(refusal) => return Ok(refused(&refusal)),
        };
        let entry = call.entry(self.now());
        let sequence = self.0.log.arrived(entry.clone());
        let (refusal, after) = match self.faults().judge(&entry) {
            Ruling::Serve => (None, After::Answer),
            Ruling::ServeThenFreeze => (None, After::Silence),
            Ruling::Freeze => return std::future::pending().await,
            Ruling::Fault(fault) => match self.strike(fault, &call).await {
                Struck::Refused(refusal) => (Some(refusal), After::Answer),
                Struck::Served(after) => (None, after),
                Struck::Broken => return Err(connection_error()),
            },
        };
        let is_struck = refusal.is_some();
        let outcome = match refusal {
            Some(refusal) => Err(refusal),
            None => self.with_state(|state| state.carry_out(&call, self.now())),
        };
        let code = match &outcome {
            Ok(Outcome::Text(code, _)) => *code,
            Ok(Outcome::Watch(_)) => 200,
            Err(refusal) => refusal.code,
        };
        if !is_struck {
            self.0.log.carried_out(sequence, code);
        }
        match after {
            After::Answer => {}
            After::Silence => return std::future::pending().await,
            After::Error => return Err(connection_error()),
        }
        self.0.log.answered(sequence, code);
        Ok(match outcome {
            Ok(Outcome::Text(code, text)) => answer(code, text),
            Ok(Outcome::Watch(wish)) => {
                let body = StreamBody::new(watch::open(self, *wish));
                respond(200, BodyExt::boxed_unsync(body))
            }
            Err(refusal) => refused(&refusal),
        })
    }

    /// Serves version, health and discovery; a client that was cut off hears nothing here either.
    async fn serve_other(&self, user_agent: &str, path: &str) -> Result<Answer, BoxError> {
        if self.faults().is_cut(user_agent) {
            return std::future::pending().await;
        }
        let found = self.with_state(|state| discovery::answer(path, &state.kinds));
        Ok(match found {
            Some(body) => answer(200, body.to_string()),
            None => refused(&Refusal::no_such_path()),
        })
    }

    async fn strike(&self, fault: Fault, call: &Call) -> Struck {
        match fault {
            Fault::Conflict => {
                let address = &call.address;
                let kind = self.with_state(|state| {
                    state.kind(&address.group, &address.version, &address.plural)
                });
                let name = call.name();
                Struck::Refused(match kind {
                    Some(kind) => Refusal::stale(&kind, name),
                    None => Refusal::no_such_path(),
                })
            }
            Fault::TooManyRequests { retry_after_seconds } => {
                Struck::Refused(Refusal::too_many_requests(
                    "the server has received too many requests and has asked us to try again later",
                    retry_after_seconds,
                ))
            }
            Fault::InternalError => Struck::Refused(Refusal::internal("injected fault")),
            Fault::Forbidden => Struck::Refused(Refusal::plain(
                403,
                "Forbidden",
                "the account may not do this (injected fault)",
            )),
            Fault::Unavailable => Struck::Refused(Refusal::plain(
                503,
                "ServiceUnavailable",
                "the server is currently unable to handle the request",
            )),
            Fault::AnswerLost => Struck::Served(After::Error),
            Fault::NeverAnswered => Struck::Served(After::Silence),
            Fault::ConnectionRefused => Struck::Broken,
            Fault::Delay(pause) => {
                self.clock().sleep(pause).await;
                Struck::Served(After::Answer)
            }
        }
    }
}

/// What the client gets once the request has been carried out.
#[derive(Clone, Copy)]
enum After {
    Answer,
    Silence,
    Error,
}

/// What a fault leaves of a request.
enum Struck {
    Refused(Refusal),
    Served(After),
    Broken,
}

impl State {
    fn carry_out(&mut self, call: &Call, now: Timestamp) -> Result<Outcome, Refusal> {
        let address = &call.address;
        let kind = self
            .kind(&address.group, &address.version, &address.plural)
            .ok_or_else(Refusal::no_such_path)?;
        call.check_scope(&kind)?;
        let key = (call.namespace().to_owned(), call.name().to_owned());
        let shown =
            |code: u16, object: &Value| Ok(Outcome::Text(code, call.view.render(&kind, object)));
        if kind.is("poddisruptionbudgets") {
            self.count_budgets();
        }
        match call.verb {
            Verb::Get => Ok(Outcome::Text(200, self.get(&kind, call)?)),
            Verb::List => Ok(Outcome::Text(200, self.list(&kind, call)?)),
            Verb::Watch => Ok(Outcome::Watch(Box::new(call.wish(&kind)?))),
            Verb::Create if address.subresource.is_some() => {
                self.create_subresource(&kind, &key, call, now)
            }
            Verb::Create => {
                let intent = call.intent(&kind, now)?;
                shown(201, &*self.create(&intent, call.body.clone())?)
            }
            Verb::Update => {
                let intent = call.intent(&kind, now)?;
                let wanted = call.body.clone();
                // Leases are the one kind of ours that a PUT creates.
                if kind.is("leases") && self.store.get(&kind.key(), &key).is_none() {
                    return shown(201, &*self.create(&intent, wanted)?);
                }
                shown(200, &*self.update(&intent, Method::Put, call.name(), wanted)?)
            }
            Verb::Patch => {
                let intent = call.intent(&kind, now)?;
                let current = self
                    .store
                    .get(&kind.key(), &key)
                    .ok_or_else(|| Refusal::not_found(&kind, call.name()))?;
                let wanted = patch::apply(&kind, &current, &call.content_type, &call.body)?;
                shown(200, &*self.update(&intent, Method::Patch, call.name(), wanted)?)
            }
            Verb::Delete => {
                let options = options_of(call);
                let deleted = self.delete(&kind, &key, &options, now)?;
                Ok(Outcome::Text(200, delete::answer(&kind, &deleted).to_string()))
            }
            Verb::DeleteCollection => self.delete_collection(&kind, call, now),
        }
    }

    fn create_subresource(
        &mut self,
        kind: &Arc<Kind>,
        key: &ObjectKey,
        call: &Call,
        now: Timestamp,
    ) -> Result<Outcome, Refusal> {
        if !kind.is("pods") || call.address.subresource.as_deref() != Some("eviction") {
            return Err(Refusal::no_such_path());
        }
        self.evict(kind, key, &call.body, now)?;
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "code": 201,
        });
        Ok(Outcome::Text(201, status.to_string()))
    }

    fn delete_collection(
        &mut self,
        kind: &Arc<Kind>,
        call: &Call,
        now: Timestamp,
    ) -> Result<Outcome, Refusal> {
        let listed = self.list(kind, call)?;
        let selector = call.selector(kind)?;
        let options = options_of(call);
        let keys: Vec<ObjectKey> = self
            .store
            .collection(&kind.key())
            .objects
            .iter()
            .filter(|(key, object)| {
                watch::is_in(call.address.namespace.as_deref(), &key.0) && selector.matches(object)
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.delete(kind, &key, &options, now)?;
        }
        Ok(Outcome::Text(200, listed))
    }
}

/// Returns the options of a delete; older clients send the grace period as a query parameter.
fn options_of(call: &Call) -> DeleteOptions {
    let mut options = DeleteOptions::parse(&call.body);
    let of_query = call.parameter("gracePeriodSeconds").and_then(|text| text.parse().ok());
    options.grace_period_seconds = options.grace_period_seconds.or(of_query);
    options
}

fn refused(refusal: &Refusal) -> Answer {
    let mut response = answer(refusal.code, refusal.text());
    if let Some(seconds) = refusal.retry_after_seconds {
        response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
    }
    response
}

fn answer(code: u16, text: String) -> Answer {
    respond(code, Full::new(Bytes::from(text)).boxed_unsync())
}

fn respond(code: u16, body: UnsyncBoxBody<Bytes, Infallible>) -> Answer {
    let mut response = http::Response::new(body);
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}

fn connection_error() -> BoxError {
    Box::new(std::io::Error::new(
        std::io::ErrorKind::ConnectionReset,
        "connection reset by the embedded API server (injected fault)",
    ))
}
