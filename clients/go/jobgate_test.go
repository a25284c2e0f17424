package jobgate_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	jobgate "github.com/jobgate/jobgate/clients/go"
	pb "github.com/jobgate/jobgate/clients/go/jobgatev1"
)

func shout(_ context.Context, job *jobgate.Job) (*jobgate.Result, error) {
	return &jobgate.Result{Body: bytes.ToUpper(job.Body)}, nil
}

func TestDeliversJobsAndTheirResults(t *testing.T) {
	g := startGateway(t)
	jobs := make(chan *jobgate.Job, 1)
	r := start(g, func(ctx context.Context, job *jobgate.Job) (*jobgate.Result, error) {
		if ctx.Value(contextKey{}) != "a value" {
			return nil, errors.New("the context has no values")
		}
		jobs <- job
		return shout(ctx, job)
	}, jobgate.Options{Token: "secret", Subscriber: "me", Concurrency: 3, JobIDs: []uint64{7}})
	s, first := g.accept()
	expect(t, first, &pb.RunnerMessage{Subscribe: &pb.SubscribeRequest{Subscriber: "me", MaxInFlight: 3, JobIds: []uint64{7}}})
	if md, _ := metadata.FromIncomingContext(s.Context()); strings.Join(md["authorization"], " ") != "Bearer secret" {
		t.Errorf("authorization is %q", md["authorization"])
	}
	s.deliver(time.Hour, "hello")
	job := within(t, jobs, "a job")
	if job.CallId != 1 || job.JobId != 7 || job.ServiceId != 9 || job.Attempt != 1 || string(job.Body) != "hello" ||
		job.Metadata["X-WEBHOOK-ORIGIN"] != "webhook" {
		t.Errorf("the job is %+v", job)
	}
	message := s.until(hasOutcome)
	expect(t, message.Acks[0], &pb.AckRequest_Ack{CallId: 1, LeaseToken: "token-hello", Result: &pb.JobResult{Body: []byte("HELLO")}})
	s.answer(message, done)
	r.stop()
	if err := r.ended(); err != nil {
		t.Error(err)
	}
	if strings.Count(r.log.String(), "\n") != 1 || !strings.Contains(r.log.String(), "connected to jobgate") {
		t.Errorf("the log is:\n%s", r.log)
	}
}

func TestEachOutcome(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	ack := func(result *pb.JobResult) proto.Message {
		return &pb.AckRequest_Ack{CallId: 1, LeaseToken: "token-a", Result: result}
	}
	retry := func(delay *durationpb.Duration, reason string) proto.Message {
		outcome := &pb.NackRequest_Nack_Retry{Retry: &pb.NackRequest_Retry{Delay: delay, Reason: reason}}
		return &pb.NackRequest_Nack{CallId: 1, LeaseToken: "token-a", Outcome: outcome}
	}
	fail := func(reason string) proto.Message {
		outcome := &pb.NackRequest_Nack_Fail{Fail: &pb.NackRequest_Fail{Reason: reason}}
		return &pb.NackRequest_Nack{CallId: 1, LeaseToken: "token-a", Outcome: outcome}
	}
	for name, test := range map[string]struct {
		handler func() (*jobgate.Result, error)
		want    proto.Message
	}{
		"content type": {func() (*jobgate.Result, error) {
			return &jobgate.Result{Body: []byte("[1]"), ContentType: "application/json"}, nil
		},
			ack(&pb.JobResult{Body: []byte("[1]"), ContentType: "application/json"})},
		"no result": {func() (*jobgate.Result, error) { return nil, nil }, ack(nil)},
		"largest result": {func() (*jobgate.Result, error) { return &jobgate.Result{Body: []byte(long)}, nil },
			ack(&pb.JobResult{Body: []byte(long)})},
		"too large a result": {func() (*jobgate.Result, error) { return &jobgate.Result{Body: []byte(long + "x")}, nil },
			fail(`the result has 1048577 bytes of "": at most 1 MiB is allowed`)},
		"content type that is not UTF-8": {func() (*jobgate.Result, error) { return &jobgate.Result{ContentType: "a\xff"}, nil },
			fail(`the result has 0 bytes of "a\xff": at most 1 MiB is allowed`)},
		"error": {func() (*jobgate.Result, error) { return nil, errors.New("busy") }, retry(nil, "busy")},
		"retry at once": {func() (*jobgate.Result, error) { return nil, jobgate.RetryAfter(0, io.EOF) },
			retry(&durationpb.Duration{}, "EOF")},
		"retry after too long": {func() (*jobgate.Result, error) { return nil, jobgate.RetryAfter(72*time.Hour, io.EOF) },
			retry(durationpb.New(24*time.Hour), "EOF")},
		"wrapped fail": {func() (*jobgate.Result, error) { return nil, fmt.Errorf("read: %w", jobgate.Fail(io.EOF)) },
			fail("read: EOF")},
		"reason that is not UTF-8": {func() (*jobgate.Result, error) { return nil, errors.New("a\xffb") }, retry(nil, "ab")},
		"panic":                    {func() (*jobgate.Result, error) { panic("secret") }, retry(nil, "the handler panicked")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := startGateway(t)
			start(g, func(context.Context, *jobgate.Job) (*jobgate.Result, error) { return test.handler() }, jobgate.Options{})
			s, _ := g.accept()
			s.deliver(time.Hour, "a")
			if m := s.until(hasOutcome); len(m.Acks) > 0 {
				expect(t, m.Acks[0], test.want)
			} else {
				expect(t, m.Nacks[0], test.want)
			}
		})
	}
}

func TestFailAndRetryAfterWrapErrors(t *testing.T) {
	for _, err := range []error{jobgate.Fail(io.EOF), jobgate.RetryAfter(time.Second, io.EOF)} {
		if !errors.Is(err, io.EOF) || err.Error() != "EOF" {
			t.Errorf("%#v does not wrap io.EOF", err)
		}
	}
}

func TestAJobOfATestTakesProgressAndACharge(t *testing.T) {
	for _, job := range []*jobgate.Job{{}, {JobCall: &pb.JobCall{}}} {
		job.Progress(50, "half")
		job.Charge(1)
		job.ChargeShare(1)
	}
}

// metered is the metadata of a JobCall that is metered.
var metered = map[string]string{"X-X402-PAYMENT-SCHEME": "upto", "X-X402-PAYMENT-AMOUNT": "1000"}

func TestTheLastChargeGoesWithExtensionsAndTheAck(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	finish := make(chan bool)
	r := start(g, func(_ context.Context, job *jobgate.Job) (*jobgate.Result, error) {
		job.Charge(200)
		job.Charge(250)
		job.Progress(50, "half")
		<-finish
		job.ChargeShare(2_500)
		return nil, nil
	}, jobgate.Options{})
	s, _ := g.accept()
	s.deliverWith(metered, time.Hour, "a")
	extended := s.until(hasExtend)
	expect(t, extended.Extends[0].ChargeSoFar, &pb.Charge{Amount: &pb.Charge_Units{Units: "250"}})
	s.answer(extended, done)
	close(finish)
	acked := s.until(hasOutcome)
	expect(t, acked.Acks[0].Charge, &pb.Charge{Amount: &pb.Charge_BasisPoints{BasisPoints: 2_500}})
	s.answer(acked, done)
	r.stop()
	if err := r.ended(); err != nil {
		t.Error(err)
	}
}

func TestACharge(t *testing.T) {
	units := func(units string) *pb.Charge { return &pb.Charge{Amount: &pb.Charge_Units{Units: units}} }
	for name, test := range map[string]struct {
		metadata map[string]string
		charge   func(*jobgate.Job)
		sent     *pb.Charge
	}{
		"is at most the ceiling":   {metered, func(job *jobgate.Job) { job.Charge(1_001) }, units("1000")},
		"may be nothing":           {metered, func(job *jobgate.Job) { job.Charge(0) }, units("0")},
		"is none at a fixed price": {map[string]string{"X-X402-PAYMENT-SCHEME": "exact"}, func(job *jobgate.Job) { job.Charge(1) }, nil},
		"is none for a webhook":    {nil, func(job *jobgate.Job) { job.ChargeShare(1) }, nil},
		"is at most the whole": {metered, func(job *jobgate.Job) { job.ChargeShare(10_001) },
			&pb.Charge{Amount: &pb.Charge_BasisPoints{BasisPoints: 10_000}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := startGateway(t)
			start(g, func(_ context.Context, job *jobgate.Job) (*jobgate.Result, error) {
				test.charge(job)
				return nil, nil
			}, jobgate.Options{})
			s, _ := g.accept()
			s.deliverWith(test.metadata, time.Hour, "a")
			acked := s.until(hasOutcome)
			expect(t, acked.Acks[0].Charge, test.sent)
			s.answer(acked, done)
		})
	}
}

func TestExtendsLeasesAndShowsProgress(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	finish := make(chan bool)
	r := start(g, func(_ context.Context, job *jobgate.Job) (*jobgate.Result, error) {
		job.Progress(150, "half\xff")
		<-finish
		return nil, nil
	}, jobgate.Options{})
	s, _ := g.accept()
	s.deliver(12*time.Second, "a")
	shown := s.until(func(m *pb.RunnerMessage) bool { return hasExtend(m) && m.Extends[0].Progress != nil })
	progress := &pb.ExtendRequest_Progress{Percent: 100, Text: "half"}
	expect(t, shown.Extends[0], &pb.ExtendRequest_Lease{CallId: 1, LeaseToken: "token-a", Progress: progress})
	s.answer(shown, done)
	for range 2 { // The second comes as the first lease ends.
		s.answer(s.until(hasExtend), done)
	}
	close(finish)
	s.answer(s.until(hasOutcome), done)
	r.stop()
	if err := r.ended(); err != nil || strings.Contains(r.log.String(), "lost") {
		t.Errorf("%v, and the log is:\n%s", err, r.log)
	}
}

// untilCancelled returns a handler that shows progress and waits for the end of its context if the body says so, and
// reports its cause.
func untilCancelled(causes chan<- error) func(context.Context, *jobgate.Job) (*jobgate.Result, error) {
	return func(ctx context.Context, job *jobgate.Job) (*jobgate.Result, error) {
		if string(job.Body) != "wait" {
			return &jobgate.Result{Body: job.Body}, nil
		}
		job.Progress(1, "waiting")
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return &jobgate.Result{Body: job.Body}, nil
	}
}

func TestALostLeaseCancelsTheHandlerAndDropsItsOutcome(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	causes := make(chan error, 1)
	r := start(g, untilCancelled(causes), jobgate.Options{})
	s, _ := g.accept()
	s.deliver(time.Hour, "wait")
	s.answer(s.until(hasExtend), lost)
	if cause := within(t, causes, "the end of the handler"); cause != jobgate.ErrLeaseLost {
		t.Errorf("the cause is %v", cause)
	}
	s.deliver(time.Hour, "a")
	message := s.until(hasOutcome)
	if len(message.Acks) != 1 || message.Acks[0].LeaseToken != "token-a" {
		t.Errorf("outcomes are %v", message)
	}
	s.answer(message, done)
	r.stop()
	if err := r.ended(); err != nil || strings.Count(r.log.String(), "lease lost") != 1 {
		t.Errorf("%v, and the log is:\n%s", err, r.log)
	}
}

func TestANewStreamExtendsHeldLeasesAndRepeatsOutcomesAtOnce(t *testing.T) {
	g := startGateway(t)
	causes := make(chan error, 1)
	r := start(g, untilCancelled(causes), jobgate.Options{})
	s, _ := g.accept()
	s.deliver(time.Hour, "wait", "b", "c")
	for outcomes := 0; outcomes < 2; {
		outcomes += len(s.next().Acks) // Without an answer.
	}
	s.end <- status.Error(codes.Unavailable, "shutting down")
	s, first := g.accept()
	if len(first.Acks) != 2 || len(first.Extends) != 1 || first.Extends[0].LeaseToken != "token-wait" {
		t.Errorf("the first message is %v", first)
	}
	s.reply(&pb.Statuses{Sequence: first.Sequence, Acks: []pb.LeaseStatus{done, notFound}, Extends: []pb.LeaseStatus{lost}})
	within(t, causes, "the end of the handler")
	r.stop()
	if err := r.ended(); err != nil {
		t.Error(err)
	}
	for _, line := range []string{"disconnected from jobgate", "shutting down", "NOT_FOUND", "LEASE_LOST"} {
		if strings.Count(r.log.String(), line) != 1 {
			t.Errorf("%q is not once in the log:\n%s", line, r.log)
		}
	}
}

func TestRepeatsAnOutcomeThatTheGatewayCouldNotStore(t *testing.T) {
	g := startGateway(t)
	start(g, shout, jobgate.Options{})
	s, _ := g.accept()
	s.deliver(time.Hour, "a")
	for range 3 {
		message := s.until(hasOutcome)
		s.reply(&pb.Statuses{Sequence: message.Sequence, ErrorCode: uint32(codes.Unavailable), ErrorMessage: "store away"})
	}
	s.answer(s.until(hasOutcome), done)
}

func TestAResultThatTheGatewayRefusesFailsItsJob(t *testing.T) {
	g := startGateway(t)
	start(g, shout, jobgate.Options{})
	s, _ := g.accept()
	s.deliver(time.Hour, "a")
	message := s.until(hasOutcome)
	invalid := []pb.LeaseStatus{pb.LeaseStatus_LEASE_STATUS_INVALID_ARGUMENT}
	s.reply(&pb.Statuses{Sequence: message.Sequence, Acks: invalid, ErrorMessage: "status is 99: expected 200 to 599"})
	message = s.until(hasOutcome)
	expect(t, message.Nacks[0], &pb.NackRequest_Nack{CallId: 1, LeaseToken: "token-a", Outcome: &pb.NackRequest_Nack_Fail{
		Fail: &pb.NackRequest_Fail{Reason: "status is 99: expected 200 to 599"}}})
	s.answer(message, done)
}

func TestForgetsAnOutcomeThatTheGatewayRefusesForGood(t *testing.T) {
	g := startGateway(t)
	r := start(g, func(context.Context, *jobgate.Job) (*jobgate.Result, error) { return nil, io.EOF }, jobgate.Options{})
	s, _ := g.accept()
	s.deliver(time.Hour, "a")
	message := s.until(hasOutcome)
	invalid := []pb.LeaseStatus{pb.LeaseStatus_LEASE_STATUS_INVALID_ARGUMENT}
	s.reply(&pb.Statuses{Sequence: message.Sequence, Nacks: invalid, ErrorMessage: "too odd"})
	r.stop()
	if err := r.ended(); err != nil || !strings.Contains(r.log.String(), "too odd") {
		t.Errorf("%v, and the log is:\n%s", err, r.log)
	}
}

func TestAResultHasTheStatusAndHeadersThatTheHandlerSet(t *testing.T) {
	g := startGateway(t)
	start(g, func(_ context.Context, job *jobgate.Job) (*jobgate.Result, error) {
		job.Status(201)
		job.Header("Link", "</a>")
		job.Header("Link", "</\xff>")
		return &jobgate.Result{Body: job.Body}, nil
	}, jobgate.Options{})
	s, _ := g.accept()
	s.deliver(time.Hour, "a")
	message := s.until(hasOutcome)
	expect(t, message.Acks[0], &pb.AckRequest_Ack{CallId: 1, LeaseToken: "token-a", Result: &pb.JobResult{Body: []byte("a")},
		Status: proto.Uint32(201), Headers: []*pb.Header{{Name: "Link", Value: "</a>"}, {Name: "Link", Value: "</>"}}})
	s.answer(message, done)
}

func TestStopTakesNothingNewAndFinishesWhatItHas(t *testing.T) {
	for name, stop := range map[string]func(*runner){
		"context": func(r *runner) { r.stop() },
		"SIGTERM": func(*runner) { syscall.Kill(syscall.Getpid(), syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			g := startGateway(t)
			running, finish := make(chan bool, 1), make(chan bool)
			r := start(g, func(ctx context.Context, job *jobgate.Job) (*jobgate.Result, error) {
				running <- true
				<-finish
				return &jobgate.Result{Body: job.Body}, ctx.Err()
			}, jobgate.Options{})
			s, _ := g.accept()
			s.deliver(time.Hour, "a")
			within(t, running, "a running handler")
			stop(r)
			s.answer(s.until(func(m *pb.RunnerMessage) bool { return m.MaxInFlight != nil }), done)
			// A broken stream does not change that.
			s.end <- status.Error(codes.Unavailable, "shutting down")
			s, first := g.accept()
			if first.MaxInFlight == nil || *first.MaxInFlight != 0 {
				t.Errorf("the first message is %v", first)
			}
			close(finish)
			message := s.until(hasOutcome)
			if len(message.Acks) != 1 {
				t.Errorf("the outcome is %v", message)
			}
			s.answer(message, done)
			for range s.received { // Until the runner closes its side.
			}
			if err := r.ended(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestEndsWhenTheGatewayRefusesItForGood(t *testing.T) {
	for _, code := range []codes.Code{codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument, codes.Unimplemented} {
		g := startGateway(t)
		g.refuse = func(context.Context) error { return status.Error(code, "a reason") }
		r := start(g, shout, jobgate.Options{})
		err := r.ended()
		if status.Code(err) != code || !strings.Contains(err.Error(), "a reason") || !strings.Contains(err.Error(), "check the address, token") {
			t.Errorf("%v ends Run with %v", code, err)
		}
	}
}

func TestARefusalCancelsHandlers(t *testing.T) {
	g := startGateway(t)
	causes := make(chan error, 1)
	r := start(g, untilCancelled(causes), jobgate.Options{})
	s, _ := g.accept()
	s.deliver(time.Hour, "wait")
	s.until(hasExtend) // The handler runs.
	s.end <- status.Error(codes.InvalidArgument, "undecodable")
	if err := r.ended(); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
	if cause := within(t, causes, "the end of the handler"); cause != jobgate.ErrLeaseLost {
		t.Errorf("the cause is %v", cause)
	}
}

func TestRunsNoMoreHandlersThanItsConcurrencyAcrossStreams(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	running, finish := make(chan string, 2), make(chan bool)
	start(g, func(_ context.Context, job *jobgate.Job) (*jobgate.Result, error) {
		running <- string(job.Body)
		<-finish
		return nil, nil
	}, jobgate.Options{Concurrency: 1})
	s, _ := g.accept()
	s.deliver(time.Hour, "a")
	within(t, running, "the first handler")
	s.end <- status.Error(codes.Unavailable, "shutting down")
	s, first := g.accept()
	s.answer(first, lost)
	s.deliver(time.Hour, "b")
	s.end <- status.Error(codes.Unavailable, "shutting down")
	_, first = g.accept()
	if len(first.Extends) != 1 || first.Extends[0].LeaseToken != "token-b" || len(running) > 0 {
		t.Errorf("the first message is %v, and %d more handlers run", first, len(running))
	}
	close(finish)
	if body := within(t, running, "the second handler"); body != "b" {
		t.Errorf("the handler of %q runs", body)
	}
}

func TestALeaseThatRanOutWithoutTheGatewayIsLost(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	causes := make(chan error, 1)
	r := start(g, untilCancelled(causes), jobgate.Options{})
	s, _ := g.accept()
	s.deliver(3*time.Second, "wait")
	within(t, causes, "the end of the handler") // No extension was answered.
	g.server.Stop()
	r.stop()
	if err := r.ended(); err != nil {
		t.Error(err)
	}
}

func TestAShortLeaseIsKeptForTenSecondsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	causes := make(chan error, 1)
	start(g, untilCancelled(causes), jobgate.Options{})
	s, _ := g.accept()
	s.deliver(time.Millisecond, "wait")
	for extensions := 0; extensions < 4; { // The first has the progress; a lost lease is not extended.
		extensions += len(s.next().Extends)
	}
}

func TestConnectsToAUnixSocket(t *testing.T) {
	g := startGateway(t)
	path := filepath.Join(t.TempDir(), "runner.sock")
	g.listen("unix", path)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- jobgate.Run(ctx, shout, &jobgate.Options{Address: "unix:" + path}) }()
	g.accept()
	stop()
	if err := within(t, over, "the end of Run"); err != nil {
		t.Error(err)
	}
}

func TestConnectsWithTLSToAServerOfItsAuthorities(t *testing.T) {
	web := httptest.NewTLSServer(nil) // Has a certificate.
	defer web.Close()
	g := startGateway(t, grpc.Creds(credentials.NewServerTLSFromCert(&web.TLS.Certificates[0])))
	authorities := x509.NewCertPool()
	authorities.AddCert(web.Certificate())
	tls := credentials.NewClientTLSFromCert(authorities, "")
	t.Setenv("JOBGATE_RUNNER", g.address)
	t.Setenv("JOBGATE_RUNNER_TOKEN", "secret")
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- jobgate.Run(ctx, shout, &jobgate.Options{Credentials: tls}) }()
	s, first := g.accept()
	if md, _ := metadata.FromIncomingContext(s.Context()); strings.Join(md["authorization"], " ") != "Bearer secret" {
		t.Errorf("authorization is %q", md["authorization"])
	}
	if host, _ := os.Hostname(); first.Subscribe.Subscriber != fmt.Sprintf("%s/%d", host, os.Getpid()) || first.Subscribe.MaxInFlight != 8 {
		t.Errorf("the defaults are %v", first)
	}
	stop()
	if err := within(t, over, "the end of Run"); err != nil {
		t.Error(err)
	}
}

func expect(t *testing.T, got, want proto.Message) {
	t.Helper()
	if !proto.Equal(got, want) {
		t.Errorf("got  %.500v\nwant %.500v", got, want)
	}
}
