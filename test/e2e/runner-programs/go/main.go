// A runner that fails, retries or sleeps as the body says, and returns the reversed body. At a route it answers with
// the status in the path, and with a header that says what was asked.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jobgate/jobgate/clients/go"
)

func work(ctx context.Context, job *jobgate.Job) (*jobgate.Result, error) {
	fmt.Println("delivery", job.CallId, job.Attempt)
	body := string(job.Body)
	if strings.HasPrefix(body, "fail") {
		return nil, jobgate.Fail(errors.New("asked to fail"))
	}
	if strings.HasPrefix(body, "retry") && job.Attempt == 1 {
		return nil, errors.New("asked to retry")
	}
	if ms, found := strings.CutPrefix(body, "sleep:"); found {
		pause, err := time.ParseDuration(ms + "ms")
		if err != nil {
			return nil, jobgate.Fail(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	slices.Reverse(job.Body)
	if asked := job.Metadata; asked["X-HTTP-METHOD"] != "" {
		status, _ := strconv.Atoi(asked["X-HTTP-PARAM-STATUS"])
		job.Status(status)
		job.Header("X-Asked", asked["X-HTTP-METHOD"]+" "+asked["X-HTTP-PATH"]+"?"+asked["X-HTTP-QUERY"])
	}
	return &jobgate.Result{Body: job.Body}, nil
}

func main() { jobgate.Main(work, nil) }
