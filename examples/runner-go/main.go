// A runner for jobgate that returns the reversed body of each JobCall.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	pb "jobgate.example/runner-go/jobgatev1"
)

const (
	maxInFlight     = 8
	maxMessageBytes = 64 << 20
)

var errFailed = errors.New("asked to fail")

// work runs the job. Errors are retried, except errFailed.
func work(ctx context.Context, call *pb.JobCall) ([]byte, error) {
	if bytes.HasPrefix(call.Body, []byte("fail")) {
		return nil, errFailed
	}
	if bytes.HasPrefix(call.Body, []byte("retry")) && call.Attempt == 1 {
		return nil, errors.New("asked to retry")
	}
	if text, found := strings.CutPrefix(string(call.Body), "sleep:"); found {
		ms, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	result := bytes.Clone(call.Body)
	slices.Reverse(result)
	return result, nil
}

type runner struct {
	client pb.RunnerServiceClient
	inHand sync.WaitGroup
}

// handle runs one delivery and finishes it. Unfinished deliveries come again.
func (r *runner) handle(ctx context.Context, call *pb.JobCall) {
	fmt.Println("delivery", call.CallId, call.Attempt)
	held, letGo := context.WithCancel(ctx)
	defer letGo()
	go r.keepLease(held, letGo, call)
	result, err := work(held, call)
	if held.Err() != nil {
		log.Printf("lease of %d lost", call.CallId)
		return
	}
	var reply interface{ GetStatuses() []pb.LeaseStatus }
	callCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err == nil {
		reply, err = r.client.Ack(callCtx, &pb.AckRequest{Acks: []*pb.AckRequest_Ack{{
			CallId: call.CallId, LeaseToken: call.LeaseToken,
			Result: &pb.JobResult{Body: result, ContentType: "text/plain"},
		}}})
	} else {
		nack := &pb.NackRequest_Nack{CallId: call.CallId, LeaseToken: call.LeaseToken}
		if errors.Is(err, errFailed) {
			nack.Outcome = &pb.NackRequest_Nack_Fail{Fail: &pb.NackRequest_Fail{Reason: err.Error()}}
		} else {
			nack.Outcome = &pb.NackRequest_Nack_Retry{Retry: &pb.NackRequest_Retry{Reason: err.Error()}}
		}
		reply, err = r.client.Nack(callCtx, &pb.NackRequest{Nacks: []*pb.NackRequest_Nack{nack}})
	}
	switch {
	case err != nil:
		log.Printf("%d is not finished: %v", call.CallId, err)
	case slices.Equal(reply.GetStatuses(), []pb.LeaseStatus{pb.LeaseStatus_LEASE_STATUS_DONE}):
		fmt.Println("finished", call.CallId)
	default:
		log.Printf("%d was finished too late", call.CallId)
	}
}

// keepLease renews the lease at half its length until held ends, and ends held once the lease is lost.
func (r *runner) keepLease(held context.Context, letGo func(), call *pb.JobCall) {
	ticker := time.NewTicker(max(time.Until(call.LeaseExpiresAt.AsTime())/2, 100*time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-held.Done():
			return
		case <-ticker.C:
		}
		reply, err := r.client.Extend(held, &pb.ExtendRequest{Leases: []*pb.ExtendRequest_Lease{
			{CallId: call.CallId, LeaseToken: call.LeaseToken},
		}})
		if err == nil && !slices.Equal(reply.Statuses, []pb.LeaseStatus{pb.LeaseStatus_LEASE_STATUS_DONE}) {
			letGo()
		}
	}
}

// subscribe takes JobCalls until the stream or stop ends, and reports whether it was connected.
func (r *runner) subscribe(ctx, stop context.Context) (connected bool, err error) {
	calls, err := r.client.Subscribe(ctx, &pb.SubscribeRequest{Subscriber: "runner-go", MaxInFlight: maxInFlight})
	if err != nil {
		return false, err
	}
	if _, err = calls.Header(); err == nil {
		fmt.Println("subscribed")
	}
	for connected = err == nil; ; {
		call, err := calls.Recv()
		if err != nil {
			return connected, err
		}
		if stop.Err() == nil {
			r.inHand.Go(func() { r.handle(ctx, call) })
		}
	}
}

func main() {
	stop, done := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer done()
	address := "127.0.0.1:8403"
	if value := os.Getenv("JOBGATE_RUNNER"); value != "" {
		address = value
	}
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 15 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if token := os.Getenv("RUNNER_TOKEN"); token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	r := &runner{client: pb.NewRunnerServiceClient(conn)}
	go func() {
		wait := 100 * time.Millisecond
		for stop.Err() == nil {
			connected, err := r.subscribe(ctx, stop)
			if connected {
				wait = 100 * time.Millisecond
			}
			log.Printf("not subscribed: %v", err)
			conn.ResetConnectBackoff() // this loop does the backoff
			time.Sleep(rand.N(wait))
			wait = min(wait*2, 5*time.Second)
		}
	}()
	<-stop.Done()
	// The stream stays open: its end would give our work to another runner.
	r.inHand.Wait()
}
