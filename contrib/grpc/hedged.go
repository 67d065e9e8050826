package guardgrpc

import (
	"context"
	"errors"
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/bide-dev/bide/hedge"
)

// answer is what one attempt of a hedged call writes to. Two attempts may run at
// once, so each has its own, and the caller gets that of the attempt that counts.
type answer struct {
	reply   any
	header  metadata.MD
	trailer metadata.MD
	peer    peer.Peer
}

// newAnswer returns an answer with room for a reply of the same type.
func newAnswer(reply any) *answer {
	if m, ok := reply.(proto.Message); ok {
		return &answer{reply: m.ProtoReflect().New().Interface()}
	}
	return &answer{reply: reflect.New(reflect.TypeOf(reply).Elem()).Interface()}
}

// options are the caller's, but for those that write where the caller reads.
func (a *answer) options(callers []grpc.CallOption) []grpc.CallOption {
	own := []grpc.CallOption{grpc.Header(&a.header), grpc.Trailer(&a.trailer), grpc.Peer(&a.peer)}
	for _, o := range callers {
		switch o.(type) {
		case grpc.HeaderCallOption, grpc.TrailerCallOption, grpc.PeerCallOption:
		default:
			own = append(own, o)
		}
	}
	return own
}

// give hands the answer to the caller.
func (a *answer) give(reply any, callers []grpc.CallOption) {
	switch m := reply.(type) {
	case nil: // the call failed: there is none
	case proto.Message:
		proto.Reset(m)
		proto.Merge(m, a.reply.(proto.Message))
	default:
		reflect.ValueOf(reply).Elem().Set(reflect.ValueOf(a.reply).Elem())
	}
	for _, o := range callers {
		switch o := o.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = a.header
		case grpc.TrailerCallOption:
			*o.TrailerAddr = a.trailer
		case grpc.PeerCallOption:
			*o.PeerAddr = a.peer
		}
	}
}

// Hedge makes a second call beside a slow one, as h says, and takes the answer that
// comes first: header, trailer and peer are those of that call. It is for methods
// that may be called twice. hedge.Config.HedgeIf sees errors that [Codes] knows.
func Hedge(h *hedge.Hedge) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		a, err := hedge.Get(ctx, h, func(ctx context.Context) (*answer, error) {
			own := newAnswer(reply)
			err := failed(invoke(ctx, method, request, own.reply, conn, own.options(options)...), own.trailer)
			var e *callError
			if errors.As(err, &e) {
				e.answer = own
			}
			return own, err
		})
		if err == nil {
			a.give(reply, options)
			return nil
		}
		var e *callError
		if errors.As(err, &e) {
			e.answer.give(nil, options)
		}
		return final(ctx, err)
	}
}
