//! A gateway in the test's process: tests read what a runner sends, and choose the answers.
use std::time::Duration;

use bytes::{Buf, BytesMut};
use h2::{RecvStream, SendStream, server};
use http::{HeaderMap, HeaderValue, Request, Response};
use prost::{Message, bytes::Bytes};
use tokio::net::{TcpListener, UnixListener};
use tokio::{io, sync::mpsc};

#[path = "../../src/proto.rs"]
#[allow(dead_code, clippy::all)]
mod proto;

pub use proto::charge::Amount;
pub use proto::nack_request::nack::Outcome;
pub use proto::{Charge, GatewayMessage, JobCall, LeaseStatus, RunnerMessage, Statuses};

/// Listens for runners.
pub struct Gateway {
    pub address: String,
    streams: mpsc::UnboundedReceiver<Stream>,
}

/// One Work stream.
pub struct Stream {
    pub authorization: Option<HeaderValue>,
    requests: RecvStream,
    responses: SendStream<Bytes>,
    buffer: BytesMut,
}

impl Gateway {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (sender, streams) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(serve(connection, sender.clone()));
            }
        });
        Self { address, streams }
    }

    pub async fn start_unix(path: &str) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let (sender, streams) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(serve(connection, sender.clone()));
            }
        });
        Self { address: format!("unix:{path}"), streams }
    }

    /// Returns the next stream, and its first message.
    pub async fn accept(&mut self) -> (Stream, RunnerMessage) {
        let mut stream = self.streams.recv().await.unwrap();
        let first = stream.receive().await.unwrap();
        (stream, first)
    }
}

async fn serve<C: io::AsyncRead + io::AsyncWrite + Unpin>(socket: C, streams: mpsc::UnboundedSender<Stream>) {
    let Ok(mut connection) = server::handshake(socket).await else { return };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        assert_eq!(request.uri().path(), "/jobgate.v1.RunnerService/Work");
        let headers = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
        let responses = respond.send_response(headers, false).unwrap();
        let authorization = request.headers().get("authorization").cloned();
        let requests = Request::into_body(request);
        _ = streams.send(Stream { authorization, requests, responses, buffer: BytesMut::new() });
    }
}

impl Stream {
    /// Returns the next message, or none once the runner has closed its side.
    pub async fn receive(&mut self) -> Option<RunnerMessage> {
        loop {
            if self.buffer.len() >= 5 {
                let length = (&self.buffer[1..5]).get_u32() as usize;
                if self.buffer.len() >= 5 + length {
                    self.buffer.advance(5);
                    return Some(RunnerMessage::decode(self.buffer.split_to(length)).unwrap());
                }
            }
            let data = self.requests.data().await?.ok()?;
            self.requests.flow_control().release_capacity(data.len()).unwrap();
            self.buffer.extend_from_slice(&data);
        }
    }

    /// Delivers jobs with these call IDs. Their bodies are their IDs.
    pub fn deliver(&mut self, call_ids: impl IntoIterator<Item = u64>, lease: Duration) {
        self.deliver_with(&[("X-WEBHOOK-ORIGIN", "webhook")], call_ids, lease);
    }

    pub fn deliver_with(
        &mut self,
        metadata: &[(&str, &str)],
        call_ids: impl IntoIterator<Item = u64>,
        lease: Duration,
    ) {
        let job_calls = call_ids.into_iter().map(|call_id| JobCall {
            call_id,
            job_id: 3,
            service_id: 1,
            body: call_id.to_string().into(),
            metadata: metadata.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            lease_token: format!("lease of {call_id}"),
            attempt: 1,
            lease_secs: lease.as_secs_f64(),
            ..Default::default()
        });
        self.send(GatewayMessage { job_calls: job_calls.collect(), statuses: vec![] });
    }

    /// Answers all parts of a message with one status.
    pub fn answer(&mut self, message: &RunnerMessage, status: LeaseStatus) {
        let statuses = |count| vec![status as i32; count];
        self.send_statuses(Statuses {
            sequence: message.sequence,
            acks: statuses(message.acks.len()),
            nacks: statuses(message.nacks.len()),
            extends: statuses(message.extends.len()),
            ..Default::default()
        });
    }

    /// Finds the only ack of a message invalid.
    pub fn refuse(&mut self, message: &RunnerMessage, reason: &str) {
        let acks = vec![LeaseStatus::InvalidArgument as i32];
        let error_message = reason.into();
        self.send_statuses(Statuses { sequence: message.sequence, acks, error_message, ..Default::default() });
    }

    pub fn send_statuses(&mut self, statuses: Statuses) {
        self.send(GatewayMessage { job_calls: vec![], statuses: vec![statuses] });
    }

    fn send(&mut self, message: GatewayMessage) {
        let mut frame = vec![0];
        frame.extend((message.encoded_len() as u32).to_be_bytes());
        message.encode(&mut frame).unwrap();
        self.responses.send_data(frame.into(), false).unwrap();
    }

    /// Ends the stream with a gRPC status.
    pub fn end(mut self, code: u32, message: &'static str) {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", code.into());
        trailers.insert("grpc-message", HeaderValue::from_static(message));
        self.responses.send_trailers(trailers).unwrap();
    }
}
