mod gateway;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, future::pending, process, sync::Arc, time::Duration};

use gateway::{Amount, Charge, Gateway, LeaseStatus, Outcome, Statuses, Stream};
use jobgate_runner::{Error, Fail, HandlerResult, Job, JobError, JobResult, Retry, Runner};
use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{Event, Level, Metadata, Subscriber, span};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(1);

/// A gateway, with a runner whose stream is open.
struct Test {
    gateway: Gateway,
    stream: Stream,
    stop: CancellationToken,
    running: JoinHandle<Result<(), Error>>,
}

impl Test {
    async fn start<F>(handler: impl Fn(Job) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = HandlerResult> + Send + 'static,
    {
        let mut gateway = Gateway::start().await;
        let stop = CancellationToken::new();
        let runner = Runner { address: gateway.address.clone(), stop: stop.clone(), ..Default::default() };
        let running = tokio::spawn(runner.run(handler));
        let (stream, _) = gateway.accept().await;
        Self { gateway, stream, stop, running }
    }

    /// Stops the runner, which has nothing in hand.
    async fn stop(mut self) {
        self.stop.cancel();
        assert_eq!(self.stream.receive().await.unwrap().max_in_flight, Some(0));
        assert!(self.stream.receive().await.is_none());
        self.stream.end(0, "");
        self.running.await.unwrap().unwrap();
    }
}

/// Returns the Nack that a handler's error becomes.
async fn nack_of(error: impl Fn() -> JobError + Send + Sync + 'static) -> Outcome {
    let mut test = Test::start(move |_| std::future::ready(Err(error()))).await;
    test.stream.deliver([1], LONG);
    let message = test.stream.receive().await.unwrap();
    test.stream.answer(&message, LeaseStatus::Done);
    test.stop().await;
    message.nacks[0].outcome.clone().unwrap()
}

#[tokio::test]
async fn subscribes_with_its_options() {
    let mut gateway = Gateway::start().await;
    let runner = Runner {
        address: gateway.address.clone(),
        token: Some("secret".into()),
        subscriber: "resizer".into(),
        concurrency: 2,
        job_ids: vec![3, 4],
        ..Default::default()
    };
    let running = tokio::spawn(runner.run(async |_| Ok(None)));
    let (stream, first) = gateway.accept().await;
    let subscribe = first.subscribe.unwrap();
    assert_eq!(stream.authorization.as_ref().unwrap(), "Bearer secret");
    assert_eq!((&*subscribe.subscriber, subscribe.max_in_flight), ("resizer", 2));
    assert_eq!(subscribe.job_ids, [3, 4]);
    running.abort();
}

#[tokio::test]
async fn a_concurrency_of_0_counts_as_1() {
    let mut gateway = Gateway::start().await;
    let runner = Runner { address: gateway.address.clone(), concurrency: 0, ..Default::default() };
    let running = tokio::spawn(runner.run(async |_| Ok(None)));
    let (mut stream, first) = gateway.accept().await;
    assert_eq!(first.subscribe.unwrap().max_in_flight, 1);
    stream.deliver([1], LONG);
    assert_eq!(stream.receive().await.unwrap().acks.len(), 1);
    running.abort();
}

#[tokio::test]
async fn a_handler_gets_the_job_and_its_result_is_acked() {
    let mut test = Test::start(|job: Job| async move {
        assert_eq!((job.call_id, job.job_id, job.service_id, job.attempt), (7, 3, 1, 1));
        assert_eq!(job.metadata["X-WEBHOOK-ORIGIN"], "webhook");
        Ok(Some(job.body.into()))
    })
    .await;
    test.stream.deliver([7], LONG);
    let message = test.stream.receive().await.unwrap();
    let ack = &message.acks[0];
    assert_eq!((ack.call_id, &*ack.lease_token), (7, "lease of 7"));
    let result = ack.result.as_ref().unwrap();
    assert_eq!((&*result.body, &*result.content_type), (&b"7"[..], ""));
    test.stream.answer(&message, LeaseStatus::Done);
    test.stop().await;
}

#[tokio::test]
async fn a_result_has_its_content_type() {
    let mut test = Test::start(async |_| {
        Ok(Some(JobResult { body: "{}".into(), content_type: "application/json".into(), ..Default::default() }))
    })
    .await;
    test.stream.deliver([1], LONG);
    let message = test.stream.receive().await.unwrap();
    assert_eq!(message.acks[0].result.as_ref().unwrap().content_type, "application/json");
    test.stream.answer(&message, LeaseStatus::Done);
    test.stop().await;
}

#[tokio::test]
async fn outcomes_that_are_ready_together_go_in_one_message_and_have_a_status_each() {
    let barrier = Arc::new(Barrier::new(8));
    let (sender, mut tokens) = mpsc::unbounded_channel();
    let mut test = Test::start(move |job: Job| {
        let (barrier, sender) = (barrier.clone(), sender.clone());
        async move {
            let is_even = job.call_id.is_multiple_of(2);
            sender.send((is_even, job.lost.clone())).unwrap();
            barrier.wait().await;
            if is_even { Ok(None) } else { Err("odd".into()) }
        }
    })
    .await;
    test.stream.deliver(1..=8, LONG);
    let message = test.stream.receive().await.unwrap();
    assert_eq!((message.acks.len(), message.nacks.len()), (4, 4));
    test.stream.send_statuses(Statuses {
        sequence: message.sequence,
        acks: vec![LeaseStatus::Done as i32; 4],
        nacks: vec![LeaseStatus::LeaseLost as i32; 4],
        ..Default::default()
    });
    test.stop().await;
    for _ in 0..8 {
        let (is_even, lost) = tokens.recv().await.unwrap();
        assert_eq!(lost.is_cancelled(), !is_even);
    }
}

#[tokio::test]
async fn at_most_concurrency_handlers_run() {
    let (started, mut starts) = mpsc::unbounded_channel();
    let mut test = Test::start(move |job: Job| {
        let started = started.clone();
        async move {
            started.send(job.call_id).unwrap();
            pending::<HandlerResult>().await
        }
    })
    .await;
    test.stream.deliver(1..=9, SHORT);
    for call_id in 1..=8 {
        assert_eq!(starts.recv().await, Some(call_id));
    }
    // The ninth keeps its lease while it waits.
    while !test.stream.receive().await.unwrap().extends.iter().any(|lease| lease.call_id == 9) {}
    assert!(starts.is_empty());
    test.running.abort();
}

#[tokio::test]
async fn an_error_means_another_attempt() {
    let Outcome::Retry(retry) = nack_of(|| "not now".into()).await else { panic!() };
    assert_eq!((&*retry.reason, retry.delay), ("not now", None));
}

#[tokio::test]
async fn retry_names_a_delay_of_at_most_a_day() {
    let Outcome::Retry(retry) = nack_of(|| Retry("later".into(), Some(Duration::MAX))).await else { panic!() };
    assert_eq!((&*retry.reason, retry.delay.unwrap().seconds), ("later", 24 * 60 * 60));
}

#[tokio::test]
async fn fail_makes_a_dead_letter() {
    let Outcome::Fail(fail) = nack_of(|| Fail("no such image".into())).await else { panic!() };
    assert_eq!(fail.reason, "no such image");
}

#[tokio::test]
async fn a_panic_means_another_attempt() {
    let Outcome::Retry(retry) = nack_of(|| panic!("out of cheese")).await else { panic!() };
    assert!(retry.reason.contains("out of cheese"), "{}", retry.reason);
}

#[tokio::test]
async fn a_result_has_the_status_and_headers_that_the_handler_gave_it() {
    let mut test = Test::start(|_| async {
        let headers = vec![("Link".into(), "</a>".into()), ("Link".into(), "</b>".into())];
        Ok(Some(JobResult { status: Some(404), headers, ..Default::default() }))
    })
    .await;
    test.stream.deliver([1], LONG);
    let message = test.stream.receive().await.unwrap();
    let ack = &message.acks[0];
    let headers: Vec<_> = ack.headers.iter().map(|header| (&*header.name, &*header.value)).collect();
    assert_eq!((ack.status, headers), (Some(404), vec![("Link", "</a>"), ("Link", "</b>")]));
    test.stream.answer(&message, LeaseStatus::Done);
    test.stop().await;
}

#[tokio::test]
async fn a_result_that_is_too_large_or_that_jobgate_refuses_becomes_a_dead_letter() {
    let mut test = Test::start(|job: Job| async move {
        Ok(Some(JobResult::from(vec![0; if job.call_id == 1 { (1 << 20) + 1 } else { 1 }])))
    })
    .await;
    for (call_id, expected) in [(1, "1048577 bytes"), (2, "too odd")] {
        test.stream.deliver([call_id], LONG);
        let mut message = test.stream.receive().await.unwrap();
        if call_id == 2 {
            test.stream.refuse(&message, "too odd");
            message = test.stream.receive().await.unwrap();
        }
        let Some(Outcome::Fail(fail)) = &message.nacks[0].outcome else { panic!() };
        assert!(fail.reason.contains(expected), "{}", fail.reason);
        test.stream.answer(&message, LeaseStatus::Done);
    }
    test.stop().await;
}

#[tokio::test]
async fn renews_a_lease_and_sends_progress() {
    let mut test = Test::start(|job: Job| async move {
        job.progress(140, "half of it");
        pending::<HandlerResult>().await
    })
    .await;
    test.stream.deliver([1], SHORT);
    let message = test.stream.receive().await.unwrap();
    let progress = message.extends[0].progress.as_ref().unwrap();
    assert_eq!((progress.percent, &*progress.text), (100, "half of it"));
    test.stream.answer(&message, LeaseStatus::Done);
    let message = test.stream.receive().await.unwrap();
    assert_eq!((message.extends[0].call_id, &*message.extends[0].lease_token), (1, "lease of 1"));
    test.running.abort();
}

const METERED: [(&str, &str); 2] = [("X-X402-PAYMENT-SCHEME", "upto"), ("X-X402-PAYMENT-AMOUNT", "1000")];

fn amount(charge: Option<&Charge>) -> Option<Amount> {
    charge.and_then(|charge| charge.amount.clone())
}

#[tokio::test]
async fn the_last_charge_goes_with_extensions_and_the_ack() {
    let finish = CancellationToken::new();
    let finished = finish.clone();
    let mut test = Test::start(move |job: Job| {
        let finished = finished.clone();
        async move {
            job.charge(200);
            job.charge(250);
            job.progress(50, "");
            finished.cancelled().await;
            job.charge_share(2_500);
            Ok(None)
        }
    })
    .await;
    test.stream.deliver_with(&METERED, [1], LONG);
    let message = test.stream.receive().await.unwrap();
    let so_far = amount(message.extends[0].charge_so_far.as_ref());
    assert_eq!(so_far, Some(Amount::Units("250".into())));
    test.stream.answer(&message, LeaseStatus::Done);
    finish.cancel();
    let message = test.stream.receive().await.unwrap();
    assert_eq!(amount(message.acks[0].charge.as_ref()), Some(Amount::BasisPoints(2_500)));
    test.stream.answer(&message, LeaseStatus::Done);
    test.stop().await;
}

#[tokio::test]
async fn a_charge_is_at_most_the_ceiling_and_only_of_a_metered_job() {
    let mut test = Test::start(async |job: Job| {
        match job.call_id {
            1 => job.charge(1_001),
            2 => job.charge(0),
            3 => job.charge_share(10_001),
            _ => job.charge(7),
        }
        Ok(None)
    })
    .await;
    let exact = [("X-X402-PAYMENT-SCHEME", "exact"), ("X-X402-PAYMENT-AMOUNT", "1000")];
    let units = |units: &str| Some(Amount::Units(units.into()));
    for (metadata, call_id, expected) in [
        (&METERED[..], 1, units("1000")),
        (&METERED[..], 2, units("0")),
        (&METERED[..], 3, Some(Amount::BasisPoints(10_000))),
        (&exact[..], 4, None),
        (&[], 5, None),
    ] {
        test.stream.deliver_with(metadata, [call_id], LONG);
        let message = test.stream.receive().await.unwrap();
        assert_eq!(amount(message.acks[0].charge.as_ref()), expected);
        test.stream.answer(&message, LeaseStatus::Done);
    }
    test.stop().await;
}

#[tokio::test]
async fn a_lost_lease_drops_the_handler_and_cancels_its_token() {
    let (sender, mut tokens) = mpsc::unbounded_channel();
    let mut test = Test::start(move |job: Job| {
        let (sender, alive) = (sender.clone(), CancellationToken::new());
        async move {
            sender.send((job.lost.clone(), alive.clone())).unwrap();
            let _dropped = alive.drop_guard();
            pending::<HandlerResult>().await
        }
    })
    .await;
    test.stream.deliver([1], SHORT);
    let message = test.stream.receive().await.unwrap();
    test.stream.answer(&message, LeaseStatus::LeaseLost);
    let (lost, dropped) = tokens.recv().await.unwrap();
    lost.cancelled().await;
    dropped.cancelled().await;
    test.stop().await;
}

#[tokio::test]
async fn a_lease_is_lost_by_the_time_since_its_last_extension_also_when_its_handler_ended_meanwhile() {
    let (sender, mut losses) = mpsc::unbounded_channel();
    let finish = CancellationToken::new();
    let finished = finish.clone();
    let mut test = Test::start(move |job: Job| {
        let (sender, finished, call_id, lost) = (sender.clone(), finished.clone(), job.call_id, job.lost);
        tokio::spawn(async move {
            lost.cancelled().await;
            sender.send(call_id).unwrap();
        });
        async move {
            if call_id == 2 {
                pending().await
            }
            finished.cancelled().await;
            Ok(None)
        }
    })
    .await;
    for call_id in [1, 2] {
        test.stream.deliver([call_id], SHORT);
        assert_eq!(test.stream.receive().await.unwrap().extends[0].call_id, call_id);
    }
    finish.cancel();
    assert_eq!(test.stream.receive().await.unwrap().acks[0].call_id, 1);
    assert_eq!((losses.recv().await, losses.recv().await), (Some(1), Some(2)));
    test.stop().await;
}

/// Counts the runner's warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN && metadata.target() == "jobgate_runner"
    }
    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn each_lost_connection_is_logged_also_with_the_reason_of_the_last_one() {
    let warnings = Warnings::default();
    let _logging = tracing::subscriber::set_default(warnings.clone());
    let mut test = Test::start(async |_| Ok(None)).await;
    for count in 1..=3 {
        test.stream.end(14, "restarting");
        (test.stream, _) = test.gateway.accept().await;
        assert_eq!(warnings.0.load(Ordering::Relaxed), count);
    }
    test.stop().await;
}

#[tokio::test]
async fn an_outcome_is_sent_again_while_the_store_is_away() {
    let mut test = Test::start(async |job: Job| Ok(Some(job.body.into()))).await;
    test.stream.deliver([1], LONG);
    let first = test.stream.receive().await.unwrap();
    let sequence = first.sequence;
    test.stream.send_statuses(Statuses { sequence, error_code: 14, ..Default::default() });
    let second = test.stream.receive().await.unwrap();
    assert_eq!(second.acks, first.acks);
    assert_ne!(second.sequence, first.sequence);
    test.stream.answer(&second, LeaseStatus::Done);
    test.stop().await;
}

#[tokio::test]
async fn the_next_stream_begins_with_held_leases_and_unanswered_outcomes() {
    let mut test =
        Test::start(
            |job: Job| async move { if job.call_id == 2 { pending().await } else { Ok(Some(job.body.into())) } },
        )
        .await;
    test.stream.deliver([1, 2], LONG);
    let unanswered = test.stream.receive().await.unwrap();
    assert_eq!(unanswered.acks.len(), 1);
    test.stream.end(14, "shutting down");

    let (mut stream, _) = test.gateway.accept().await;
    let first = stream.receive().await.unwrap();
    assert_eq!(first.acks, unanswered.acks);
    assert_eq!(first.extends.iter().map(|lease| lease.call_id).collect::<Vec<_>>(), [2]);
    stream.answer(&first, LeaseStatus::NotFound);
    // Both are gone: nothing keeps the runner from stopping.
    test.stream = stream;
    test.stop().await;
}

#[tokio::test]
async fn stops_once_its_jobs_are_finished() {
    let (started, mut starts) = mpsc::unbounded_channel();
    let mut test = Test::start(move |job: Job| {
        let (started, finish) = (started.clone(), CancellationToken::new());
        async move {
            started.send(finish.clone()).unwrap();
            finish.cancelled().await;
            Ok(Some(job.body.into()))
        }
    })
    .await;
    test.stream.deliver([1], LONG);
    let finish = starts.recv().await.unwrap();
    test.stop.cancel();
    assert_eq!(test.stream.receive().await.unwrap().max_in_flight, Some(0));
    finish.cancel();
    let message = test.stream.receive().await.unwrap();
    assert_eq!(message.acks.len(), 1);
    test.stream.answer(&message, LeaseStatus::Done);
    assert!(test.stream.receive().await.is_none());
    test.stream.end(0, "");
    test.running.await.unwrap().unwrap();
}

#[tokio::test]
async fn ends_with_advice_when_jobgate_refuses_it() {
    for code in [16, 7, 3, 12] {
        let test = Test::start(async |_| Ok(None)).await;
        test.stream.end(code, "the reason");
        let error = test.running.await.unwrap().unwrap_err().to_string();
        assert!(error.contains("the reason") && error.contains("Check the token"), "{error}");
    }
}

#[tokio::test]
async fn ends_when_its_options_are_invalid() {
    let runner = Runner { address: "nowhere at all".into(), ..Default::default() };
    let error = runner.run(async |_| Ok(None)).await.unwrap_err().to_string();
    assert!(error.contains("nowhere at all") && error.contains("host:port"), "{error}");
}

#[tokio::test]
async fn connects_to_a_unix_socket() {
    let path = env::temp_dir().join(format!("jobgate-runner-{}", process::id()));
    _ = std::fs::remove_file(&path);
    let mut gateway = Gateway::start_unix(path.to_str().unwrap()).await;
    let running =
        tokio::spawn(Runner { address: gateway.address.clone(), ..Default::default() }.run(async |_| Ok(None)));
    gateway.accept().await;
    running.abort();
    std::fs::remove_file(path).unwrap();
}
