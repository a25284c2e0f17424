#![cfg_attr(not(doctest), doc = include_str!("../README.md"))]
#![warn(missing_docs)]

use std::{collections::HashMap, env, error, iter, pin::Pin, process, sync::Arc, time::Duration};

use tokio::sync::{Mutex, Semaphore, mpsc, oneshot, watch};
use tokio::{select, signal, task::JoinSet, task::yield_now, time, time::Instant, time::sleep};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::{Code, Request, Status, transport::Channel, transport::Endpoint};
use tracing::{info, warn};

pub use JobError::{Fail, Retry};
use proto::{Charge, LeaseStatus, RunnerMessage, SubscribeRequest, runner_service_client::RunnerServiceClient};
use proto::{ack_request::Ack, charge::Amount, extend_request::Lease, extend_request::Progress};
use proto::{nack_request, nack_request::Nack, nack_request::nack::Outcome};

#[allow(dead_code, missing_docs, clippy::all, rustdoc::all)]
mod proto;

/// Longest wait for jobgate.
const WAIT: Duration = Duration::from_secs(5);
/// Longest wait before another stream, and wait before a message is sent again.
const PAUSE: Duration = Duration::from_millis(500);
/// Bounds on the time between renewals, of which the longest is also the shortest without one after which a lease is
/// lost: a busy machine or network delays answers.
const RENEWAL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Sentence that says why a runner ended without being stopped, and what to do.
pub type Error = Box<dyn error::Error + Send + Sync>;

/// Error of a handler. Any error or text becomes [`Retry`](Self::Retry) without a delay, so that `?` works.
#[derive(Debug)]
pub enum JobError {
    /// Another attempt may help, after a delay of at most a day or else after jobgate's backoff.
    Retry(String, Option<Duration>),
    /// No other attempt would help: the job becomes a dead letter, whose reason the paying client can read.
    Fail(String),
}

impl<E: Into<Error>> From<E> for JobError {
    fn from(error: E) -> Self {
        Retry(error.into().to_string(), None)
    }
}

/// Result of a job. The paying client gets all of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobResult {
    /// At most 1 MiB.
    pub body: Vec<u8>,
    /// Media type. Empty means `application/octet-stream`.
    pub content_type: String,
    /// HTTP status, 200 to 599. From 400 on the job has failed, and is not delivered again. Default: 200.
    pub status: Option<u32>,
    /// Names and values of HTTP headers.
    pub headers: Vec<(String, String)>,
}

impl From<Vec<u8>> for JobResult {
    fn from(body: Vec<u8>) -> Self {
        Self { body, ..Default::default() }
    }
}

/// Output of a handler. `None` is no result.
pub type HandlerResult = Result<Option<JobResult>, JobError>;

/// One delivery of a job.
pub struct Job {
    /// ID of the job, the same in every delivery.
    pub call_id: u64,
    /// The webhook endpoint's `job_id`, or the job index of a paid job.
    pub job_id: u64,
    /// Service of the job.
    pub service_id: u64,
    /// The request body, byte for byte. It comes from outside: do not trust it.
    pub body: Vec<u8>,
    /// Origin of the job.
    pub metadata: HashMap<String, String>,
    /// Number of this delivery, from 1.
    pub attempt: u32,
    /// Token that is cancelled when the lease is lost: another runner may have the job. The handler's future is
    /// dropped then; threads and tasks that it started must watch this token.
    pub lost: CancellationToken,
    /// Content of the next extension.
    report: watch::Sender<Lease>,
}

impl Job {
    /// Shows the paying client how far the job is: 0 to 100 percent, and at most 200 characters.
    pub fn progress(&self, percent: u32, text: &str) {
        let progress = Progress { percent: percent.min(100), text: text.chars().take(200).collect() };
        self.report.send_modify(|lease| lease.progress = Some(progress));
    }

    /// Sets what the client pays for a job that is metered: token units, at most the ceiling. The last charge
    /// counts; without one it is the ceiling. It has no effect on other jobs.
    pub fn charge(&self, units: u64) {
        let ceiling = self.metadata.get("X-X402-PAYMENT-AMOUNT").and_then(|amount| amount.parse().ok());
        self.set_charge(Amount::Units(units.min(ceiling.unwrap_or_default()).to_string()));
    }

    /// Sets the charge as a share of the ceiling: 0 to 10,000 basis points. See [`charge`](Self::charge).
    pub fn charge_share(&self, basis_points: u32) {
        self.set_charge(Amount::BasisPoints(basis_points.min(10_000)));
    }

    fn set_charge(&self, amount: Amount) {
        let metered = self.metadata.get("X-X402-PAYMENT-SCHEME").is_some_and(|scheme| scheme == "upto");
        // The next extension is soon enough: only a payment whose time ends before the work needs it.
        self.report.send_if_modified(|lease| {
            lease.charge_so_far = metered.then_some(Charge { amount: Some(amount) });
            false
        });
    }
}

/// Options of a runner: `Runner { concurrency: 32, ..Default::default() }.run(handler).await`.
#[derive(Clone)]
pub struct Runner {
    /// jobgate's `runner.bind_address`, as `host:port`, `unix:PATH`, or `https://host:port` for TLS. Default: the
    /// environment variable `JOBGATE_RUNNER`, or else 127.0.0.1:8403.
    pub address: String,
    /// jobgate's `runner.token`. Default: the environment variable `JOBGATE_RUNNER_TOKEN`.
    pub token: Option<String>,
    /// Name in jobgate's logs. Default: host name and process ID.
    pub subscriber: String,
    /// Most jobs at once, at least 1. Default: 8.
    pub concurrency: u32,
    /// Only these jobs. Default: all.
    pub job_ids: Vec<u64>,
    /// Stops the runner gracefully when cancelled.
    pub stop: CancellationToken,
}

impl Default for Runner {
    fn default() -> Self {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            address: variable("JOBGATE_RUNNER").unwrap_or_else(|| "127.0.0.1:8403".into()),
            token: variable("JOBGATE_RUNNER_TOKEN"),
            subscriber: format!("{}/{}", hostname::get().unwrap_or_default().display(), process::id()),
            concurrency: 8,
            job_ids: vec![],
            stop: CancellationToken::new(),
        }
    }
}

impl Runner {
    /// Runs `handler` for each job until SIGTERM, SIGINT or `stop`. Then it takes nothing new, finishes what it has,
    /// and returns. A second signal ends it at once.
    ///
    /// # Errors
    ///
    /// Fails if the options are invalid, or jobgate refuses this runner for good. A lost connection is no error.
    pub async fn run<F: Future<Output = HandlerResult> + Send + 'static>(
        self,
        handler: impl Fn(Job) -> F + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let ((sender, receiver), stop) = (mpsc::unbounded_channel(), self.stop.clone());
        let workplace = Arc::new(Workplace {
            handler: Arc::new(move |job| Box::pin(handler(job))),
            permits: Semaphore::new(self.concurrency.max(1) as usize),
            questions: (sender, Mutex::new(receiver)),
            streams: watch::Sender::new(()),
            // To jobgate, 0 would be 64.
            runner: Runner { concurrency: self.concurrency.max(1), ..self },
        });
        let signals = async {
            terminated().await;
            stop.cancel();
            terminated().await;
        };
        select! {
            ended = workplace.keep_connected() => ended,
            () = signals => Err("Ended by a second signal: unfinished jobs go to other runners".into()),
        }
    }
}

async fn terminated() {
    #[cfg(unix)]
    let sigterm = signal::unix::signal(signal::unix::SignalKind::terminate());
    #[cfg(windows)]
    let sigterm = signal::windows::ctrl_close();
    let mut sigterm = sigterm.expect("the signal can be handled");
    select! { _ = signal::ctrl_c() => {}, _ = sigterm.recv() => {} }
}

/// The status of a message's part, with the reason of the first that jobgate found invalid in that message.
type Answer = (LeaseStatus, String);

/// A message with one part, and who waits for the answer. The sender is dropped if it must be sent again.
type Question = (RunnerMessage, oneshot::Sender<Answer>);

/// State that the deliveries of a runner share.
struct Workplace {
    handler: Arc<dyn Fn(Job) -> Pin<Box<dyn Future<Output = HandlerResult> + Send>> + Send + Sync>,
    permits: Semaphore,
    questions: (mpsc::UnboundedSender<Question>, Mutex<mpsc::UnboundedReceiver<Question>>),
    /// Changes when a stream opens.
    streams: watch::Sender<()>,
    runner: Runner,
}

impl Workplace {
    /// Works on one stream after the other, until stopped and finished with everything. Deliveries outlive streams.
    async fn keep_connected(self: Arc<Self>) -> Result<(), Error> {
        let (Runner { address, stop, .. }, mut deliveries, mut told) = (&self.runner, JoinSet::new(), String::new());
        let scheme = if address.starts_with("unix:") || address.contains("://") { "" } else { "http://" };
        let endpoint = Endpoint::new(format!("{scheme}{address}"))
            .map_err(|error| format!("{address:?} is not host:port, unix:PATH or https://host:port: {error}"))?;
        let endpoint = endpoint.http2_keep_alive_interval(3 * WAIT).keep_alive_timeout(WAIT).connect_timeout(WAIT);
        while !(stop.is_cancelled() && deliveries.is_empty()) {
            let streams = self.streams.subscribe();
            let Err(status) = self.work(endpoint.connect_lazy(), &mut deliveries).await else { break };
            use Code::{InvalidArgument, PermissionDenied, Unauthenticated, Unimplemented};
            let (code, message) = (status.code(), status.message());
            if matches!(code, InvalidArgument | PermissionDenied | Unauthenticated | Unimplemented) {
                let advice = "Check the token, the options, and the version of jobgate.";
                return Err(format!("{address} refuses this runner: {code:?}: {message} {advice}").into());
            }
            let cause = iter::successors(error::Error::source(&status), |&error| error.source()).last();
            let reason = cause.map_or_else(|| message.into(), ToString::to_string);
            // Each lost connection is told, and the first of failures to connect that are alike.
            if told != reason || streams.has_changed().is_ok_and(|opened| opened) {
                warn!(address, reason, "disconnected");
            }
            told = reason;
            sleep(PAUSE.mul_f64(fastrand::f64())).await;
            while deliveries.try_join_next().is_some() {}
        }
        Ok(())
    }

    /// Works on one stream until it breaks.
    async fn work(self: &Arc<Self>, channel: Channel, deliveries: &mut JoinSet<()>) -> Result<(), Status> {
        let Runner { address, token, subscriber, concurrency: max_in_flight, job_ids, stop } = self.runner.clone();
        let mut paused = stop.is_cancelled();
        let subscribe = SubscribeRequest { subscriber, max_in_flight, job_ids, ..Default::default() };
        let (outbox, outgoing) = mpsc::unbounded_channel();
        let send = |message| _ = outbox.send(message);
        send(RunnerMessage { subscribe: Some(subscribe), max_in_flight: paused.then_some(0), ..Default::default() });
        let mut request = Request::new(UnboundedReceiverStream::new(outgoing));
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse().map_err(|_| Status::invalid_argument("token: not ASCII."))?;
            request.metadata_mut().insert("authorization", value);
        }
        let mut client = RunnerServiceClient::new(channel).max_decoding_message_size(usize::MAX);
        let mut incoming = client.work(request).await?.into_inner();
        info!(address, "connected");
        // Every delivery asks for its renewal, unless it has something else to ask.
        self.streams.send_replace(());
        let (mut unanswered, mut sequence): (HashMap<_, Vec<oneshot::Sender<Answer>>>, _) = (HashMap::new(), 0);
        let mut questions = self.questions.1.lock().await;
        while !(paused && deliveries.is_empty()) {
            select! {
                message = incoming.message() => {
                    let message = message?.ok_or_else(|| Status::unavailable("jobgate ended the stream"))?;
                    for answer in message.statuses {
                        let askers = unanswered.remove(&answer.sequence).unwrap_or_default();
                        if answer.error_code != 0 {
                            warn!(reason = answer.error_message, "message not taken");
                            tokio::spawn(async { sleep(PAUSE).await; drop(askers) });
                            continue;
                        }
                        for (asker, status) in askers.into_iter().zip([answer.acks, answer.nacks, answer.extends].concat()) {
                            // Nobody waits for the renewal of a lease whose handler has ended meanwhile.
                            _ = asker.send((status.try_into().unwrap_or_default(), answer.error_message.clone()));
                        }
                    }
                    message.job_calls.into_iter().for_each(|call| _ = deliveries.spawn(self.clone().deliver(call)));
                }
                Some(_) = deliveries.join_next() => {}
                () = stop.cancelled(), if !paused => {
                    paused = true;
                    send(RunnerMessage { max_in_flight: Some(0), ..Default::default() });
                }
                Some(question) = questions.recv() => {
                    // Others that are ready go in the same message, which has room for as many results of full size.
                    yield_now().await;
                    let mut batch = vec![question];
                    batch.extend(iter::from_fn(|| questions.try_recv().ok()).take(14));
                    sequence += 1;
                    let mut message = RunnerMessage { sequence, ..Default::default() };
                    // Statuses come in this order.
                    batch.sort_by_key(|(part, _)| (part.extends.len(), part.nacks.len()));
                    let askers = batch.into_iter().map(|(part, asker)| {
                        message.acks.extend(part.acks);
                        message.nacks.extend(part.nacks);
                        message.extends.extend(part.extends);
                        asker
                    });
                    unanswered.insert(sequence, askers.collect());
                    send(message);
                }
            }
        }
        drop(outbox);
        // Everything is answered; jobgate ends the stream now.
        _ = time::timeout(WAIT, async { while let Ok(Some(_)) = incoming.message().await {} }).await;
        Ok(())
    }

    /// Runs the handler while it renews the lease, and sends the outcome.
    async fn deliver(self: Arc<Self>, call: proto::JobCall) {
        let proto::JobCall { call_id, job_id, service_id, body, metadata, lease_token, attempt, .. } = call;
        let (report, mut reports) = watch::channel(Lease { call_id, lease_token, ..Default::default() });
        let lost = CancellationToken::new();
        let job = Job { call_id, job_id, service_id, body, metadata, attempt, lost: lost.clone(), report };
        // Cancels when the runner ends, too.
        let lost = lost.drop_guard();
        let lease = Duration::try_from_secs_f64(call.lease_secs).unwrap_or_default();
        let mut expiry = Instant::now() + lease.max(RENEWAL.1);
        let renewal = async {
            let mut streams = self.streams.subscribe();
            loop {
                select! {
                    () = sleep((lease / 2).clamp(RENEWAL.0, RENEWAL.1)) => {}
                    Ok(()) = reports.changed() => {}
                    Ok(()) = streams.changed() => {}
                }
                let extends = vec![reports.borrow_and_update().clone()];
                match self.ask(RunnerMessage { extends, ..Default::default() }, expiry).await {
                    (LeaseStatus::Done, _) => expiry = Instant::now() + lease.max(RENEWAL.1),
                    answer => return answer,
                }
            }
        };
        let work = async {
            let (_permit, handler) = (self.permits.acquire().await, self.handler.clone());
            // A task of its own shows that the handler panicked.
            let ended = AbortOnDropHandle::new(tokio::spawn(async move { handler(job).await })).await;
            ended.unwrap_or_else(|panic| Err(panic.into()))
        };
        let (mut status, reason) = select! {
            answer = renewal => answer,
            result = work => self.ask(outcome(result, &reports), expiry).await,
        };
        if status == LeaseStatus::InvalidArgument {
            (status, _) = self.ask(outcome(Err(Fail(reason)), &reports), expiry).await;
        }
        let LeaseStatus::Done = status else { return warn!(call_id, status = status.as_str_name(), "lease lost") };
        lost.disarm();
    }

    /// Asks until jobgate answers. Without an answer, the lease is lost.
    async fn ask(&self, message: RunnerMessage, expiry: Instant) -> Answer {
        let answer = async {
            loop {
                let (sender, answer) = oneshot::channel();
                _ = self.questions.0.send((message.clone(), sender));
                if let Ok(answer) = answer.await {
                    return answer;
                }
            }
        };
        time::timeout_at(expiry, answer).await.unwrap_or((LeaseStatus::LeaseLost, String::new()))
    }
}

/// Returns a message with one ack or nack.
fn outcome(result: HandlerResult, report: &watch::Receiver<Lease>) -> RunnerMessage {
    let Lease { call_id, lease_token, charge_so_far: charge, .. } = report.borrow().clone();
    let cut = |reason: String| reason.chars().take(4_096).collect();
    let fail = |reason| Outcome::Fail(nack_request::Fail { reason: cut(reason) });
    let outcome = match result {
        Ok(Some(result)) if result.body.len() > 1 << 20 => {
            fail(format!("The result has {} bytes: at most 1 MiB is taken", result.body.len()))
        }
        Ok(result) => {
            let mut ack = Ack { call_id, lease_token, charge, ..Default::default() };
            if let Some(JobResult { body, content_type, status, headers }) = result {
                (ack.result, ack.status) = (Some(proto::JobResult { body, content_type }), status);
                ack.headers = headers.into_iter().map(|(name, value)| proto::Header { name, value }).collect();
            }
            return RunnerMessage { acks: vec![ack], ..Default::default() };
        }
        Err(Fail(reason)) => fail(reason),
        Err(Retry(reason, delay)) => {
            let delay = delay.and_then(|delay| delay.min(Duration::from_secs(24 * 60 * 60)).try_into().ok());
            Outcome::Retry(nack_request::Retry { delay, reason: cut(reason) })
        }
    };
    RunnerMessage { nacks: vec![Nack { call_id, lease_token, outcome: Some(outcome) }], ..Default::default() }
}
