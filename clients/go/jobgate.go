// Package jobgate runs jobs that a jobgate gateway delivers. Delivery is at least once: make handlers
// idempotent by the CallId of their [Job].
package jobgate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/jobgate/jobgate/clients/go/jobgatev1"
)

// Handler runs a job. A nil [Result] is none. An error has the job delivered again after the gateway's own backoff;
// see [Fail] and [RetryAfter]. The context has the values of the one that [Run] got. It is cancelled when the lease
// is lost, not when the runner is stopped.
type Handler func(context.Context, *Job) (*Result, error)

// Job is one delivery of a request to run a job.
type Job struct {
	*pb.JobCall

	progress atomic.Pointer[pb.ExtendRequest_Progress] // What was not sent yet.
	charge   atomic.Pointer[pb.Charge]                 // The last one.
	answer   pb.AckRequest_Ack                         // Has what the handler set beside its result.
	ctx      context.Context                           // Done when the delivery is over.
	end      context.CancelCauseFunc
	length   time.Duration // Length of the lease.
	expiry   *time.Timer
	outcome  *pb.RunnerMessage // Has one ack or nack. Nil while the handler runs.
	due      time.Time         // When to send the outcome, or else an extension.
}

// Progress shows the paying client how far the job is. It does not wait for the gateway.
func (job *Job) Progress(percent int, text string) {
	job.progress.Store(&pb.ExtendRequest_Progress{Percent: uint32(min(max(percent, 0), 100)), Text: clip(text)})
}

// Charge sets what the client pays for a job that is metered: token units, at most the ceiling. The last charge
// counts; without one it is the ceiling. It has no effect on other jobs.
func (job *Job) Charge(units uint64) {
	ceiling, _ := strconv.ParseUint(job.GetMetadata()["X-X402-PAYMENT-AMOUNT"], 10, 64)
	job.setCharge(&pb.Charge{Amount: &pb.Charge_Units{Units: strconv.FormatUint(min(units, ceiling), 10)}})
}

// ChargeShare is [Job.Charge] with a share of the ceiling: 0 to 10,000 basis points.
func (job *Job) ChargeShare(basisPoints int) {
	job.setCharge(&pb.Charge{Amount: &pb.Charge_BasisPoints{BasisPoints: uint32(min(max(basisPoints, 0), 10_000))}})
}

func (job *Job) setCharge(charge *pb.Charge) {
	if job.GetMetadata()["X-X402-PAYMENT-SCHEME"] == "upto" {
		job.charge.Store(charge)
	}
}

// Status sets the HTTP status that the paying client gets with the result, 200 to 599. Without one it is 200. From 400
// on the job has failed, and is not delivered again. Only the handler's own goroutine may call Status and Header.
func (job *Job) Status(status int) { job.answer.Status = proto.Uint32(uint32(status)) }

// Header adds an HTTP header that the paying client gets with the result.
func (job *Job) Header(name, value string) {
	job.answer.Headers = append(job.answer.Headers, &pb.Header{Name: clip(name), Value: clip(value)})
}

// Result is the output of a job, at most 1 MiB. Without a content type it is application/octet-stream.
type Result = pb.JobResult

// ErrLeaseLost is the [context.Cause] in a handler once another runner may have its job.
var ErrLeaseLost = errors.New("lease lost: another runner may have the job")

// verdict is an error with the fate of its job.
type verdict struct {
	error
	fails bool
	delay *durationpb.Duration
}

func (v verdict) Unwrap() error { return v.error }

// Fail wraps an error to make the job a dead letter. The paying client reads its text.
func Fail(err error) error { return verdict{error: err, fails: true} }

// RetryAfter wraps an error to have the job delivered again after a delay of at most 24 hours.
func RetryAfter(delay time.Duration, err error) error {
	return verdict{error: err, delay: durationpb.New(min(max(delay, 0), 24*time.Hour))}
}

// Options changes defaults of [Run]. A zero field leaves the default.
type Options struct {
	Address     string                           // host:port or unix:PATH. Default: $JOBGATE_RUNNER, else 127.0.0.1:8403.
	Token       string                           // The gateway's runner token. Default: $JOBGATE_RUNNER_TOKEN.
	Credentials credentials.TransportCredentials // TLS, such as [credentials.NewTLS]. Default: plaintext.
	Subscriber  string                           // Name in the gateway's log. Default: host name and process ID.
	Concurrency int                              // Most handlers at once. Default: 8.
	JobIDs      []uint64                         // Takes only these jobs. Default: all.
	Logger      *slog.Logger                     // Default: [slog.Default].
}

// Main is [Run] for a whole program. It exits with status 1 if Run returns an error.
func Main(handler Handler, options *Options) {
	if err := Run(context.Background(), handler, options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Run calls handler for each job until ctx is done or the process gets SIGTERM or SIGINT. Then it takes nothing
// new, waits for the handlers, delivers their outcomes, and returns nil. A second signal ends the process. Run
// reconnects by itself, and returns an error if that cannot help. Nil options are the defaults.
func Run(ctx context.Context, handler Handler, options *Options) error {
	host, _ := os.Hostname()
	o := *cmp.Or(options, &Options{})
	o.Address = cmp.Or(o.Address, os.Getenv("JOBGATE_RUNNER"), "127.0.0.1:8403")
	o.Token = cmp.Or(o.Token, os.Getenv("JOBGATE_RUNNER_TOKEN"))
	o.Credentials = cmp.Or(o.Credentials, insecure.NewCredentials())
	o.Subscriber = cmp.Or(o.Subscriber, fmt.Sprintf("%.100s/%d", host, os.Getpid()))
	o.Concurrency = max(cmp.Or(o.Concurrency, 8), 1)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	stop, restore := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(stop, restore)
	jobs, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &runner{Options: o, handler: handler, jobs: jobs, stop: stop, held: map[*Job]bool{}, sent: map[uint64][]*Job{},
		slots: make(chan struct{}, o.Concurrency), changed: make(chan struct{}, 1)}
	defer func() { abandon(ErrLeaseLost); r.handlers.Wait(); restore() }()
	for last := ""; !r.isOver(); time.Sleep(rand.N(pause)) {
		connected, err := r.serve()
		switch status.Code(err) {
		case codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument, codes.Unimplemented:
			return fmt.Errorf("jobgate at %s: %w: check the address, token and version of jobgate", o.Address, err)
		}
		if !r.isOver() && (connected || err.Error() != last) {
			o.Logger.Warn("disconnected from jobgate", "address", o.Address, "reason", err)
		}
		last = err.Error()
	}
	return nil
}

// pause is the longest time before the next stream, and the time before an outcome is sent again.
const pause = 500 * time.Millisecond

// maxRenewal is the longest time between extensions, and the shortest without one after which a lease is lost: a busy
// machine or network delays answers.
const maxRenewal = 10 * time.Second

// runner works on one stream after the other.
type runner struct {
	Options
	handler    Handler
	jobs, stop context.Context // Parent of the jobs' contexts; done when the runner takes nothing new.
	handlers   sync.WaitGroup
	slots      chan struct{} // Has a value for each running handler.
	changed    chan struct{} // Has a value when an outcome is ready.

	mu   sync.Mutex // Guards the rest, and the jobs' outcome and due.
	held map[*Job]bool
	sent map[uint64][]*Job // Acks, nacks and extends of the stream's messages without an answer.
}

// isOver reports whether the runner is stopped and holds nothing.
func (r *runner) isOver() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.held, func(job *Job, _ bool) bool { return job.ctx.Err() != nil })
	return r.stop.Err() != nil && len(r.held) == 0
}

// serve works on a stream until it ends. It reports whether jobgate accepted the stream.
func (r *runner) serve() (connected bool, err error) {
	conn, err := grpc.NewClient(r.Address, grpc.WithTransportCredentials(r.Credentials),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 15 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<31-1)))
	if err != nil {
		return false, status.Error(codes.InvalidArgument, err.Error())
	}
	var sender sync.WaitGroup
	ctx, cancel := context.WithCancel(r.jobs)
	// The next stream's sender shares what is held and sent.
	defer func() { cancel(); sender.Wait(); conn.Close() }()
	if r.Token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+r.Token)
	}
	stream, err := pb.NewRunnerServiceClient(conn).Work(ctx)
	if err != nil {
		return false, err
	}
	sender.Go(func() { r.send(stream, cancel) })
	if header, _ := stream.Header(); header != nil {
		connected = true
		r.Logger.Info("connected to jobgate", "address", r.Address)
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			return connected, err
		}
		for _, statuses := range message.Statuses {
			r.answered(statuses)
		}
		for _, call := range message.JobCalls {
			r.take(call)
		}
	}
}

// send sends what is due until the stream ends or the runner is over.
func (r *runner) send(stream grpc.BidiStreamingClient[pb.RunnerMessage, pb.GatewayMessage], cancel func()) {
	subscribe := &pb.SubscribeRequest{Subscriber: r.Subscriber, MaxInFlight: uint32(r.Concurrency), JobIds: r.JobIDs}
	m := &pb.RunnerMessage{Subscribe: subscribe}
	for sequence, paused := uint64(1), false; stream.Context().Err() == nil; sequence++ {
		if r.stop.Err() != nil && !paused {
			paused, m.MaxInFlight = true, proto.Uint32(0)
		}
		if r.fill(m, sequence); proto.Size(m) > 0 {
			stream.Send(m) // Recv returns its error.
		}
		if r.isOver() {
			stream.CloseSend() // The gateway ends the stream.
			time.AfterFunc(time.Second, cancel)
			return
		}
		m = &pb.RunnerMessage{}
		select {
		case <-r.changed:
		case <-time.After(100 * time.Millisecond): // Something may be due.
		}
	}
}

// fill adds what is due to a message. Everything is when a stream begins.
func (r *runner) fill(m *pb.RunnerMessage, sequence uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var acks, nacks, extends []*Job
	now, size := time.Now(), 0
	for job := range r.held {
		isDue := m.Subscribe != nil || now.After(job.due) || job.outcome == nil && job.progress.Load() != nil
		if !isDue || job.ctx.Err() != nil || size > 8<<20 { // The gateway takes 16 MiB.
			continue
		}
		job.due = now.Add(min(job.length/2, maxRenewal))
		if size += proto.Size(job.outcome); job.outcome == nil {
			extend := &pb.ExtendRequest_Lease{CallId: job.CallId, LeaseToken: job.LeaseToken, ChargeSoFar: job.charge.Load()}
			extend.Progress = job.progress.Swap(nil)
			extends, m.Extends = append(extends, job), append(m.Extends, extend)
		} else if job.outcome.Acks != nil {
			acks, m.Acks = append(acks, job), append(m.Acks, job.outcome.Acks...)
		} else {
			nacks, m.Nacks = append(nacks, job), append(m.Nacks, job.outcome.Nacks...)
		}
	}
	if jobs := append(append(acks, nacks...), extends...); jobs != nil {
		m.Sequence, r.sent[sequence] = sequence, jobs
	}
}

// answered reads the statuses of a message.
func (r *runner) answered(s *pb.Statuses) {
	r.mu.Lock()
	defer r.mu.Unlock()
	statuses, outcomes := append(append(s.Acks, s.Nacks...), s.Extends...), len(s.Acks)+len(s.Nacks)
	for i, job := range r.sent[s.Sequence] {
		switch {
		case codes.Code(s.ErrorCode) == codes.Unavailable:
			job.due = time.Now().Add(pause)
		case i >= len(statuses), statuses[i] == pb.LeaseStatus_LEASE_STATUS_INVALID_ARGUMENT && i >= len(s.Acks):
			r.lose(job, s.ErrorMessage) // This library sends none of these.
		case statuses[i] == pb.LeaseStatus_LEASE_STATUS_INVALID_ARGUMENT:
			job.outcome, job.due = job.outcomeOf(nil, Fail(errors.New(s.ErrorMessage))), time.Time{}
		case i >= outcomes && (job.outcome != nil || statuses[i] == pb.LeaseStatus_LEASE_STATUS_DONE):
			job.expiry.Reset(max(job.length, maxRenewal)) // Of a finished job, the answer to the outcome decides.
		case statuses[i] != pb.LeaseStatus_LEASE_STATUS_DONE:
			r.lose(job, statuses[i])
		default:
			job.end(nil)
		}
	}
	delete(r.sent, s.Sequence)
}

// lose ends a delivery that the gateway repeats.
func (r *runner) lose(job *Job, reason any) {
	if job.ctx.Err() == nil {
		r.Logger.Warn("lease lost", "call_id", job.CallId, "attempt", job.Attempt, "reason", reason)
		job.end(ErrLeaseLost)
	}
}

// take starts to work on a delivery, unless the runner is over: then the next subscriber gets it.
func (r *runner) take(call *pb.JobCall) {
	if r.isOver() {
		return
	}
	length := time.Duration(call.LeaseSecs * float64(time.Second))
	job := &Job{JobCall: call, length: length, due: time.Now().Add(min(length/2, maxRenewal))}
	job.ctx, job.end = context.WithCancelCause(r.jobs)
	job.expiry = time.AfterFunc(max(length, maxRenewal), func() { r.lose(job, "it ran out") })
	r.mu.Lock()
	r.held[job] = true
	r.mu.Unlock()
	r.handlers.Go(func() {
		select {
		case r.slots <- struct{}{}:
			defer func() { <-r.slots }()
		case <-job.ctx.Done():
			return
		}
		outcome := r.call(job)
		r.mu.Lock()
		job.outcome, job.due = outcome, time.Time{}
		r.mu.Unlock()
		select {
		case r.changed <- struct{}{}:
		default:
		}
	})
}

// call runs the handler. A panic of one leaves the others running.
func (r *runner) call(job *Job) (outcome *pb.RunnerMessage) {
	defer func() {
		if cause := recover(); cause != nil {
			r.Logger.Error("handler panicked", "panic", cause, "stack", string(debug.Stack()))
			outcome = job.outcomeOf(nil, errors.New("the handler panicked"))
		}
	}()
	return job.outcomeOf(r.handler(job.ctx, job))
}

// outcomeOf returns a message with one ack or nack.
func (job *Job) outcomeOf(result *Result, err error) *pb.RunnerMessage {
	switch {
	case err != nil:
	case len(result.GetBody()) > 1<<20 || clip(result.GetContentType()) != result.GetContentType(): // Breaks the stream.
		err = Fail(fmt.Errorf("the result has %d bytes of %q: at most 1 MiB is allowed", len(result.Body), result.ContentType))
	default:
		return &pb.RunnerMessage{Acks: []*pb.AckRequest_Ack{{CallId: job.CallId, LeaseToken: job.LeaseToken, Result: result,
			Charge: job.charge.Load(), Status: job.answer.Status, Headers: job.answer.Headers}}}
	}
	nack := &pb.NackRequest_Nack{CallId: job.CallId, LeaseToken: job.LeaseToken}
	if v, _ := errors.AsType[verdict](err); v.fails {
		nack.Outcome = &pb.NackRequest_Nack_Fail{Fail: &pb.NackRequest_Fail{Reason: clip(err.Error())}}
	} else {
		nack.Outcome = &pb.NackRequest_Nack_Retry{Retry: &pb.NackRequest_Retry{Reason: clip(err.Error()), Delay: v.delay}}
	}
	return &pb.RunnerMessage{Nacks: []*pb.NackRequest_Nack{nack}}
}

// clip makes text fit for a message. The gateway cuts it further.
func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), 16<<10)], "") }
