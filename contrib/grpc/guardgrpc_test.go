package guardgrpc_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/bide-dev/bide/circuit"
	guardgrpc "github.com/bide-dev/bide/contrib/grpc"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
)

// health is a real service of gRPC that fails as told.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
	calls  atomic.Int32
	answer func(ctx context.Context, n int32) error
}

func (h *health) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if err := h.answer(ctx, h.calls.Add(1)); err != nil {
		return nil, err
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

func (h *health) Watch(_ *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	for range 3 {
		time.Sleep(50 * time.Millisecond)
		if err := stream.Send(&grpc_health_v1.HealthCheckResponse{}); err != nil {
			return err
		}
	}
	return nil
}

// serve runs the service on the loopback and returns a client under the guard.
func serve(t *testing.T, h *health, g *guard.Guard, options ...grpc.ServerOption) grpc_health_v1.HealthClient {
	t.Helper()
	return connect(t, h, options, grpc.WithUnaryInterceptor(guardgrpc.UnaryClient(g)), grpc.WithStreamInterceptor(guardgrpc.StreamClient(g)))
}

// connect is serve for a client with options of its own.
func connect(t *testing.T, h *health, options []grpc.ServerOption, own ...grpc.DialOption) grpc_health_v1.HealthClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(options...)
	grpc_health_v1.RegisterHealthServer(s, h)
	done := make(chan error, 1)
	go func() { done <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(listener.Addr().String(), append(own, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return grpc_health_v1.NewHealthClient(conn)
}

func check(ctx context.Context, c grpc_health_v1.HealthClient) error {
	_, err := c.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	return err
}

func TestUnaryCalls(t *testing.T) {
	push := func(value string) func(context.Context, int32) error {
		return func(ctx context.Context, n int32) error {
			if n > 1 {
				return nil
			}
			if err := grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", value)); err != nil {
				return err
			}
			return status.Error(codes.Unavailable, "busy")
		}
	}
	tests := []struct {
		name   string
		answer func(context.Context, int32) error
		code   codes.Code
		calls  int32
		least  time.Duration
	}{
		{"well", func(context.Context, int32) error { return nil }, codes.OK, 1, 0},
		{"on the third", func(_ context.Context, n int32) error {
			if n < 3 {
				return status.Error(codes.Unavailable, "busy")
			}
			return nil
		}, codes.OK, 3, 0},
		{"never", func(context.Context, int32) error { return status.Error(codes.ResourceExhausted, "no") }, codes.ResourceExhausted, 3, 0},
		{"not retried", func(context.Context, int32) error { return status.Error(codes.NotFound, "no") }, codes.NotFound, 1, 0},
		{"pushed back", push("80"), codes.OK, 2, 80 * time.Millisecond},
		{"pushed away", push("-1"), codes.Unavailable, 1, 0},
		{"a hanging attempt", func(ctx context.Context, n int32) error {
			if n == 1 {
				<-ctx.Done()
			}
			return nil
		}, codes.OK, 2, 500 * time.Millisecond},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := &health{answer: test.answer}
			c := serve(t, h, guard.Must(guard.New(retry.Policy{If: guardgrpc.Transient}, guard.Timeout(500*time.Millisecond))))
			began := time.Now()
			err := check(t.Context(), c)
			if status.Code(err) != test.code || h.calls.Load() != test.calls || time.Since(began) < test.least {
				t.Errorf("%v after %d calls and %v", err, h.calls.Load(), time.Since(began))
			}
		})
	}
}

// A server that fails opens the breaker; requests that are wrong do not.
func TestBreaker(t *testing.T) {
	b, err := circuit.New(circuit.Config{FailureThreshold: 2})
	if err != nil {
		t.Fatal(err)
	}
	h := &health{answer: func(_ context.Context, n int32) error {
		if n <= 5 {
			return status.Error(codes.NotFound, "no")
		}
		return status.Error(codes.Unavailable, "down")
	}}
	c := serve(t, h, guard.Must(guard.New(b)))
	for n := range 9 {
		err := check(t.Context(), c)
		if want := codes.Unavailable; n >= 5 && status.Code(err) != want || n < 5 && status.Code(err) != codes.NotFound {
			t.Errorf("call %d: %v", n, err)
		}
	}
	if h.calls.Load() != 7 || b.State() != circuit.Open {
		t.Errorf("%d calls came, the breaker is %v", h.calls.Load(), b.State())
	}
}

// The caller's own deadline and cancellation have their codes.
func TestCallersEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := &health{answer: func(ctx context.Context, _ int32) error { cancel(); <-ctx.Done(); return nil }}
	c := serve(t, h, guard.Must(guard.New(retry.Policy{})))
	if err := check(late{ctx}, c); status.Code(err) != codes.DeadlineExceeded || h.calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, h.calls.Load())
	}
}

// late is a context that ends by its deadline, whenever that is.
type late struct{ context.Context }

func (c late) Err() error {
	if c.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// The guard's timeout is of the opening; the stream continues. A machine that is slow
// opens it at a later attempt.
func TestStreams(t *testing.T) {
	c := serve(t, &health{}, guard.Must(guard.New(retry.Policy{Attempts: 100}, guard.Timeout(100*time.Millisecond))))
	stream, err := c.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; ; n++ {
		if _, err := stream.Recv(); err != nil {
			break
		}
	}
	if n != 3 {
		t.Errorf("%d messages came", n)
	}
}

// A server refuses what is too much for it, with a code that says so.
func TestServer(t *testing.T) {
	release := make(chan struct{})
	h := &health{answer: func(context.Context, int32) error { <-release; return nil }}
	l, err := limit.New(limit.Config{Concurrency: 1, Queue: limit.NoQueue})
	if err != nil {
		t.Fatal(err)
	}
	g := guard.Must(guard.New(l))
	c := serve(t, h, guard.Must(guard.New()), grpc.UnaryInterceptor(guardgrpc.UnaryServer(g)))
	first := make(chan error, 1)
	go func() { first <- check(t.Context(), c) }()
	for h.calls.Load() == 0 {
		time.Sleep(time.Millisecond) // a server of its own has no virtual time
	}
	if err := check(t.Context(), c); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the answer is %v", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// TestHedgedCallsShareNothing: both attempts of a call answer at about the same
// time, with a header of their own. The race detector looks at what they write.
func TestHedgedCallsShareNothing(t *testing.T) {
	h, err := hedge.New(hedge.Config{Delay: time.Millisecond, Ratio: 1})
	if err != nil {
		t.Fatal(err)
	}
	meet := make(chan struct{})
	service := &health{answer: func(ctx context.Context, n int32) error {
		select { // both attempts of a call are here: now both answer
		case meet <- struct{}{}:
		case <-meet:
		case <-ctx.Done():
		}
		return grpc.SetHeader(ctx, metadata.Pairs("attempt", fmt.Sprint(n)))
	}}
	client := connect(t, service, nil, grpc.WithChainUnaryInterceptor(guardgrpc.UnaryClient(guard.Must(guard.New(retry.Policy{}))), guardgrpc.Hedge(h)))
	for range 20 {
		var header, trailer metadata.MD
		var from peer.Peer
		reply, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}, grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&from))
		if err != nil || reply.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Fatalf("%v, %v", reply, err)
		}
		if len(header.Get("attempt")) != 1 || from.Addr == nil {
			t.Fatalf("header %v, from %v", header, from)
		}
	}
}
