package main

import "bytes"
import "context"
import "github.com/jobgate/jobgate/clients/go"

func shout(ctx context.Context, job *jobgate.Job) (*jobgate.Result, error) {
	return &jobgate.Result{Body: bytes.ToUpper(job.Body)}, nil
}
func main() { jobgate.Main(shout, nil) }
