package jobgate_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	jobgate "github.com/jobgate/jobgate/clients/go"
	pb "github.com/jobgate/jobgate/clients/go/jobgatev1"
)

const patience = time.Minute

const (
	done     = pb.LeaseStatus_LEASE_STATUS_DONE
	lost     = pb.LeaseStatus_LEASE_STATUS_LEASE_LOST
	notFound = pb.LeaseStatus_LEASE_STATUS_NOT_FOUND
)

// gateway is a server of RunnerService whose streams the test drives.
type gateway struct {
	pb.UnimplementedRunnerServiceServer
	t       *testing.T
	address string
	server  *grpc.Server
	streams chan *stream
	refuse  func(ctx context.Context) error // Nil accepts every stream.
}

// stream is one Work stream of a gateway.
type stream struct {
	t *testing.T
	pb.RunnerService_WorkServer
	received chan *pb.RunnerMessage // Closed when the runner closes its side.
	end      chan error
}

func startGateway(t *testing.T, options ...grpc.ServerOption) *gateway {
	g := &gateway{t: t, server: grpc.NewServer(options...), streams: make(chan *stream, 8)}
	pb.RegisterRunnerServiceServer(g.server, g)
	g.address = g.listen("tcp", "127.0.0.1:0")
	t.Cleanup(g.server.Stop)
	return g
}

// listen serves an address, and returns it.
func (g *gateway) listen(network, address string) string {
	listener, err := net.Listen(network, address)
	if err != nil {
		g.t.Fatal(err)
	}
	go g.server.Serve(listener)
	return listener.Addr().String()
}

func (g *gateway) Work(server pb.RunnerService_WorkServer) error {
	if g.refuse != nil {
		if err := g.refuse(server.Context()); err != nil {
			return err
		}
	}
	s := &stream{t: g.t, RunnerService_WorkServer: server, received: make(chan *pb.RunnerMessage, 64), end: make(chan error, 1)}
	if err := server.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	g.streams <- s
	go func() {
		defer close(s.received)
		for {
			message, err := server.Recv()
			if err != nil {
				if err == io.EOF {
					s.end <- nil
				}
				return
			}
			s.received <- message
		}
	}()
	select {
	case err := <-s.end:
		return err
	case <-server.Context().Done():
		return server.Context().Err()
	}
}

// accept returns the next stream and its first message.
func (g *gateway) accept() (*stream, *pb.RunnerMessage) {
	g.t.Helper()
	s := within(g.t, g.streams, "a stream")
	first := s.next()
	if first.Subscribe == nil {
		g.t.Fatalf("the first message has no subscribe: %v", first)
	}
	return s, first
}

func (s *stream) next() *pb.RunnerMessage {
	s.t.Helper()
	return within(s.t, s.received, "a message of the runner")
}

// until returns the first message that holds, and answers those before it.
func (s *stream) until(holds func(*pb.RunnerMessage) bool) *pb.RunnerMessage {
	s.t.Helper()
	for {
		message := s.next()
		if holds(message) {
			return message
		}
		s.answer(message, done)
	}
}

func hasOutcome(m *pb.RunnerMessage) bool { return len(m.Acks)+len(m.Nacks) > 0 }
func hasExtend(m *pb.RunnerMessage) bool  { return len(m.Extends) > 0 }

// deliver sends JobCalls with these bodies, whose call IDs count from 1.
func (s *stream) deliver(lease time.Duration, bodies ...string) {
	s.t.Helper()
	s.deliverWith(map[string]string{"X-WEBHOOK-ORIGIN": "webhook"}, lease, bodies...)
}

func (s *stream) deliverWith(metadata map[string]string, lease time.Duration, bodies ...string) {
	s.t.Helper()
	message := &pb.GatewayMessage{}
	for i, body := range bodies {
		message.JobCalls = append(message.JobCalls, &pb.JobCall{
			CallId: uint64(i + 1), JobId: 7, ServiceId: 9, Body: []byte(body), Attempt: 1,
			LeaseToken: "token-" + body, Metadata: metadata,
			LeaseSecs: lease.Seconds(),
		})
	}
	if err := s.Send(message); err != nil {
		s.t.Fatal(err)
	}
}

// answer sends the same status for each part of a message.
func (s *stream) answer(m *pb.RunnerMessage, status pb.LeaseStatus) {
	s.t.Helper()
	if len(m.Acks)+len(m.Nacks)+len(m.Extends) == 0 {
		return
	}
	repeat := func(count int) (statuses []pb.LeaseStatus) {
		for range count {
			statuses = append(statuses, status)
		}
		return statuses
	}
	s.reply(&pb.Statuses{Sequence: m.Sequence, Acks: repeat(len(m.Acks)), Nacks: repeat(len(m.Nacks)), Extends: repeat(len(m.Extends))})
}

func (s *stream) reply(statuses *pb.Statuses) {
	s.t.Helper()
	if err := s.Send(&pb.GatewayMessage{Statuses: []*pb.Statuses{statuses}}); err != nil {
		s.t.Fatal(err)
	}
}

// runner is a Run in the background.
type runner struct {
	t    *testing.T
	stop context.CancelFunc
	over chan error
	log  *logBuffer
}

func start(g *gateway, handler jobgate.Handler, options jobgate.Options) *runner {
	ctx, stop := context.WithCancel(context.WithValue(g.t.Context(), contextKey{}, "a value"))
	r := &runner{t: g.t, stop: stop, over: make(chan error, 1), log: &logBuffer{}}
	options.Address = g.address
	options.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	go func() { r.over <- jobgate.Run(ctx, handler, &options) }()
	return r
}

type contextKey struct{}

// ended returns what Run returned.
func (r *runner) ended() error {
	r.t.Helper()
	return within(r.t, r.over, "the end of Run")
}

type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func within[T any](t *testing.T, values <-chan T, what string) T {
	t.Helper()
	select {
	case value, open := <-values:
		if !open {
			t.Fatalf("no more: %s", what)
		}
		return value
	case <-time.After(patience):
		t.Fatalf("missing after %v: %s", patience, what)
		panic("unreachable")
	}
}
