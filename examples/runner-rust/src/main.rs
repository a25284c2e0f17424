//! A runner for jobgate that returns the reversed body of each JobCall.
use std::{
    env,
    error::Error,
    time::{Duration, SystemTime},
};

use jobgate::runner_service_client::RunnerServiceClient;
use jobgate::{AckRequest, ExtendRequest, JobCall, JobResult, LeaseStatus, NackRequest, SubscribeRequest};
use jobgate::{
    ack_request::Ack,
    extend_request::Lease,
    nack_request::{self, Nack, nack::Outcome},
};
use tokio::{
    select,
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::sleep,
};
use tonic::{Request, Status, metadata::AsciiMetadataValue, transport::Endpoint};
use tonic::{service::interceptor::InterceptedService, transport::Channel};

mod jobgate {
    tonic::include_proto!("jobgate.v1");
}

type Client = RunnerServiceClient<InterceptedService<Channel, Token>>;

const MAX_IN_FLIGHT: u32 = 8;
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Runs the job. An error says if another attempt may help.
async fn work(call: &JobCall) -> Result<Vec<u8>, Outcome> {
    let text = String::from_utf8_lossy(&call.body);
    if text.starts_with("fail") {
        return Err(Outcome::Fail(nack_request::Fail {
            reason: "asked to fail".into(),
        }));
    }
    if text.starts_with("retry") && call.attempt == 1 {
        return Err(Outcome::Retry(nack_request::Retry {
            reason: "asked to retry".into(),
            delay: None,
        }));
    }
    if let Some(ms) = text.strip_prefix("sleep:").and_then(|ms| ms.parse().ok()) {
        sleep(Duration::from_millis(ms)).await;
    }
    Ok(call.body.iter().rev().copied().collect())
}

/// Runs one delivery and finishes it. Unfinished deliveries come again.
async fn handle(mut client: Client, call: JobCall) {
    let JobCall { call_id, attempt, .. } = call;
    let lease_token = call.lease_token.clone();
    println!("delivery {call_id} {attempt}");
    let outcome = select! {
        outcome = work(&call) => outcome,
        () = keep_lease(client.clone(), &call) => return eprintln!("lease of {call_id} lost"),
    };
    let finished = match outcome {
        Ok(body) => {
            let result = Some(JobResult {
                body,
                content_type: "text/plain".into(),
            });
            let acks = vec![Ack {
                call_id,
                lease_token,
                result,
            }];
            client
                .ack(deadline(AckRequest { acks }))
                .await
                .map(|response| response.into_inner().statuses)
        }
        Err(outcome) => {
            let nacks = vec![Nack {
                call_id,
                lease_token,
                outcome: Some(outcome),
            }];
            client
                .nack(deadline(NackRequest { nacks }))
                .await
                .map(|response| response.into_inner().statuses)
        }
    };
    match finished {
        Ok(statuses) if statuses == [LeaseStatus::Done as i32] => println!("finished {call_id}"),
        Ok(_) => eprintln!("{call_id} was finished too late"),
        Err(status) => eprintln!("{call_id} is not finished: {}", status.message()),
    }
}

/// Renews the lease at half its length, and returns once it is lost.
async fn keep_lease(mut client: Client, call: &JobCall) {
    let expires_at = call
        .lease_expires_at
        .and_then(|time| SystemTime::try_from(time).ok());
    let lease = expires_at
        .and_then(|time| time.duration_since(SystemTime::now()).ok())
        .unwrap_or_default();
    loop {
        sleep((lease / 2).max(Duration::from_millis(100))).await;
        let leases = vec![Lease {
            call_id: call.call_id,
            lease_token: call.lease_token.clone(),
            ..Default::default()
        }];
        if let Ok(response) = client
            .extend(deadline(ExtendRequest { leases, lease: None }))
            .await
            && response.into_inner().statuses != [LeaseStatus::Done as i32]
        {
            return;
        }
    }
}

fn deadline<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(Duration::from_secs(10));
    request
}

/// Sends the bearer token, if there is one, with every call.
#[derive(Clone)]
struct Token(Option<AsciiMetadataValue>);

impl tonic::service::Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = env::var("JOBGATE_RUNNER").unwrap_or("127.0.0.1:8403".into());
    let token = env::var("RUNNER_TOKEN")
        .ok()
        .map(|token| format!("Bearer {token}").parse())
        .transpose()?;
    let channel = Endpoint::from_shared(format!("http://{address}"))?
        .http2_keep_alive_interval(Duration::from_secs(15))
        .keep_alive_timeout(Duration::from_secs(5))
        .connect_lazy();
    let mut client = RunnerServiceClient::with_interceptor(channel, Token(token))
        .max_decoding_message_size(MAX_MESSAGE_BYTES);
    let mut sigterm = signal(SignalKind::terminate())?;
    let mut in_hand = JoinSet::new();
    let mut wait_ms = 100;
    loop {
        let request = SubscribeRequest {
            subscriber: "runner-rust".into(),
            max_in_flight: MAX_IN_FLIGHT,
            ..Default::default()
        };
        let subscribed = select! {
            subscribed = client.subscribe(request) => subscribed,
            _ = sigterm.recv() => break,
        };
        let status = match subscribed {
            Err(status) => status,
            Ok(response) => {
                println!("subscribed");
                wait_ms = 100;
                let mut calls = response.into_inner();
                loop {
                    select! {
                        call = calls.message() => match call {
                            Ok(Some(call)) => drop(in_hand.spawn(handle(client.clone(), call))),
                            Ok(None) => break Status::unavailable("the stream ended"),
                            Err(status) => break status,
                        },
                        Some(_) = in_hand.join_next() => {}
                        _ = sigterm.recv() => {
                            // The stream stays open: its end would give our work to another runner.
                            in_hand.join_all().await;
                            return Ok(());
                        }
                    }
                }
            }
        };
        eprintln!("not subscribed: {}", status.message());
        select! {
            () = sleep(Duration::from_millis(fastrand::u64(0..wait_ms))) => {}
            _ = sigterm.recv() => break,
        }
        wait_ms = (wait_ms * 2).min(5_000);
    }
    in_hand.join_all().await;
    Ok(())
}
