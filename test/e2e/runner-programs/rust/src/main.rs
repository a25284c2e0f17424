use std::time::Duration;

use jobgate_runner::{Error, Fail, Job, JobResult, Runner};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt::init();
    let handler = async |job: Job| {
        println!("delivery {} {}", job.call_id, job.attempt);
        let text = String::from_utf8(job.body)?;
        if text.starts_with("fail") {
            return Err(Fail("asked to fail".into()));
        }
        if text.starts_with("retry") && job.attempt == 1 {
            return Err("asked to retry".into());
        }
        if let Some(ms) = text.strip_prefix("sleep:") {
            sleep(Duration::from_millis(ms.parse()?)).await;
        }
        let mut result: JobResult = text.chars().rev().collect::<String>().into_bytes().into();
        let asked = |name: &str| job.metadata.get(&format!("X-HTTP-{name}"));
        if let (Some(method), Some(path), Some(query)) = (asked("METHOD"), asked("PATH"), asked("QUERY")) {
            result.status = asked("PARAM-STATUS").and_then(|status| status.parse().ok());
            result.headers = vec![("X-Asked".into(), format!("{method} {path}?{query}"))];
        }
        Ok(Some(result))
    };
    Runner::default().run(handler).await
}
