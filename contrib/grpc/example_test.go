package guardgrpc_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	guardgrpc "github.com/bide-dev/bide/contrib/grpc"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
)

// dial connects a client to a service of gRPC that fails its first calls.
func dial(fails int32, server grpc.ServerOption, own ...grpc.DialOption) (grpc_health_v1.HealthClient, *health, func()) {
	h := &health{answer: func(_ context.Context, n int32) error {
		if n <= fails {
			return status.Error(codes.Unavailable, "down")
		}
		return nil
	}}
	listener := bufconn.Listen(1 << 16)
	s := grpc.NewServer(server)
	grpc_health_v1.RegisterHealthServer(s, h)
	go s.Serve(listener) // until Stop
	conn, err := grpc.NewClient("passthrough:///health", append(own,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	if err != nil {
		panic(err)
	}
	return grpc_health_v1.NewHealthClient(conn), h, func() { conn.Close(); s.Stop() }
}

func ExampleUnaryClient() {
	g := guard.Must(guard.New(retry.Policy{Attempts: 4, If: guardgrpc.Transient}, limit.Concurrency(8)))
	client, service, end := dial(2, grpc.EmptyServerOption{}, grpc.WithUnaryInterceptor(guardgrpc.UnaryClient(g)))
	defer end()
	answer, err := client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	fmt.Println(answer.GetStatus(), err, "after", service.calls.Load(), "calls")
	// Output: SERVING <nil> after 3 calls
}

// What says something about the request is not repeated, whatever the codes are.
func ExampleCodes() {
	g := guard.Must(guard.New(retry.Policy{Attempts: 4, If: guardgrpc.Codes(codes.Aborted)}))
	client, service, end := dial(1, grpc.EmptyServerOption{}, grpc.WithUnaryInterceptor(guardgrpc.UnaryClient(g)))
	defer end()
	_, err := client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	fmt.Println(status.Code(err), "after", service.calls.Load(), "call")
	// Output: Unavailable after 1 call
}

// The guard has the opening of the stream; what comes after is read as always.
func ExampleStreamClient() {
	g := guard.Must(guard.New(retry.Policy{If: guardgrpc.Transient}, guard.Timeout(5*time.Second)))
	client, _, end := dial(0, grpc.EmptyServerOption{}, grpc.WithStreamInterceptor(guardgrpc.StreamClient(g)))
	defer end()
	stream, err := client.Watch(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		fmt.Println(err)
		return
	}
	messages := 0
	for {
		if _, err := stream.Recv(); err != nil {
			break
		}
		messages++
	}
	fmt.Println(messages, "messages")
	// Output: 3 messages
}

// A server that works on no more than one call at a time, and keeps nobody waiting.
func ExampleUnaryServer() {
	slots := limit.Must(limit.New(limit.Config{Concurrency: 1, Queue: limit.NoQueue}))
	g := guard.Must(guard.New(slots))
	client, _, end := dial(0, grpc.UnaryInterceptor(guardgrpc.UnaryServer(g)))
	defer end()
	err := limit.Do(context.Background(), slots, func(ctx context.Context) error { // somebody else's call
		_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		return err
	})
	fmt.Println(status.Code(err))
	// Output: ResourceExhausted
}

// A call that has not answered within 50 ms is made a second time beside the first.
func ExampleHedge() {
	h := hedge.Must(hedge.New(hedge.Config{Delay: 50 * time.Millisecond, Ratio: 1}))
	client, service, end := dial(0, grpc.EmptyServerOption{}, grpc.WithUnaryInterceptor(guardgrpc.Hedge(h)))
	defer end()
	service.answer = func(ctx context.Context, n int32) error {
		if n == 1 {
			<-ctx.Done() // the second answers; then this one's context ends
		}
		return nil
	}
	answer, err := client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	fmt.Println(answer.GetStatus(), err, "after", service.calls.Load(), "calls")
	// Output: SERVING <nil> after 2 calls
}

// No answer of the method has come in less than 50 ms: a call that has 1 ms left is not
// sent.
func ExampleDeadline() {
	client, service, end := dial(0, grpc.EmptyServerOption{}, grpc.WithUnaryInterceptor(guardgrpc.Deadline()))
	defer end()
	service.answer = func(context.Context, int32) error { time.Sleep(50 * time.Millisecond); return nil }
	_, err := client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	fmt.Println(status.Code(err), "after", service.calls.Load(), "call")
	soon, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err = client.Check(soon, &grpc_health_v1.HealthCheckRequest{})
	fmt.Println(status.Code(err), "after", service.calls.Load(), "call")
	// Output:
	// OK after 1 call
	// DeadlineExceeded after 1 call
}
