use jobgate_runner::{Error, Job, Runner};
#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt::init();
    let shout = async |job: Job| {
        job.charge_share(100 * job.body.len() as u32); // Metered, each byte costs 1 % of the ceiling.
        Ok(Some(job.body.to_ascii_uppercase().into()))
    };
    Runner::default().run(shout).await
}
