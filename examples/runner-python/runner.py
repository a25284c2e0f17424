from jobgate_runner import Job, run


def shout(job: Job) -> str:
    # Metered, each byte costs 1 % of the ceiling.
    job.charge(basis_points=min(100 * len(job.body), 10_000))
    return job.body.decode().upper()


run(shout)
