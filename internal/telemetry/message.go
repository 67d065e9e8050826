package telemetry

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/value"
)

// message is a message of the protocol, in a form that both of its encodings are made of:
// its fields, in the order in which the generated types of Go write them. With these types
// and the reflection behind them the program is 1.9 MB larger, 6 %; the tests read with
// them what is sent.
type message []field

// field is a field of a message. Value is a string, an id, a bool, an int64, an enum, a
// fixed64, a float64, a message, a list of messages, fixed64 or float64, or a chosen one.
type field struct {
	number int
	name   string // in JSON
	value  any
}

type (
	id      []byte // in JSON hexadecimal
	enum    int
	fixed64 uint64
	// chosen is a value that is written where it is zero as well: one of several that a
	// field may have, or one that may be missing.
	chosen struct{ value any }
)

// encode gives the bytes of a message, as protobuf or as the protocol's JSON.
func encode(m message, asJSON bool) ([]byte, error) {
	if asJSON {
		return json.Marshal(m.object())
	}
	return m.append(nil), nil
}

// written gives the value to write; ok is false for a zero that nobody chose.
func (f field) written() (v any, ok bool) {
	switch v := f.value.(type) {
	case chosen:
		return v.value, true
	case string:
		return v, v != ""
	case bool:
		return v, v
	case enum:
		return v, v != 0
	case fixed64:
		return v, v != 0
	case id:
		return v, len(v) > 0
	case []fixed64:
		return v, len(v) > 0
	case []float64:
		return v, len(v) > 0
	case []message:
		return v, len(v) > 0
	}
	return f.value, true
}

// The types of what stands on the wire after a number.
const (
	varint   = 0
	eight    = 1 // bytes
	measured = 2 // has its length before it
)

// append appends the message as protobuf has it.
func (m message) append(b []byte) []byte {
	for _, f := range m {
		if v, ok := f.written(); ok {
			b = f.append(b, v)
		}
	}
	return b
}

func (f field) append(b []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		text := valid(v)
		return append(f.measured(b, len(text)), text...)
	case id:
		return append(f.measured(b, len(v)), v...)
	case bool:
		n := int64(0)
		if v {
			n = 1
		}
		return f.append(b, n)
	case enum:
		return f.append(b, int64(v))
	case int64:
		return binary.AppendUvarint(f.tag(b, varint), uint64(v))
	case fixed64:
		return binary.LittleEndian.AppendUint64(f.tag(b, eight), uint64(v))
	case float64:
		return f.append(b, fixed64(math.Float64bits(v)))
	case []fixed64:
		b = f.measured(b, 8*len(v))
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, uint64(x))
		}
		return b
	case []float64:
		return f.append(b, value.Map(v, func(x float64) fixed64 { return fixed64(math.Float64bits(x)) }))
	case message:
		inside := v.append(nil)
		return append(f.measured(b, len(inside)), inside...)
	case []message:
		for _, x := range v {
			b = f.append(b, x)
		}
		return b
	}
	panic(fmt.Sprintf("telemetry: the field %s is a %T", f.name, v))
}

func (f field) tag(b []byte, wire uint64) []byte {
	return binary.AppendUvarint(b, uint64(f.number)<<3|wire)
}

func (f field) measured(b []byte, length int) []byte {
	return binary.AppendUvarint(f.tag(b, measured), uint64(length))
}

// object is the message as JSON has it.
func (m message) object() map[string]any {
	out := make(map[string]any, len(m))
	for _, f := range m {
		if v, ok := f.written(); ok {
			out[f.name] = inJSON(v)
		}
	}
	return out
}

// inJSON is a value as JSON has it: a whole number of 64 bits is a text there.
func inJSON(v any) any {
	switch v := v.(type) {
	case string:
		return valid(v)
	case id:
		return hex.EncodeToString(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case fixed64:
		return strconv.FormatUint(uint64(v), 10)
	case []fixed64:
		return value.Map(v, func(x fixed64) any { return inJSON(x) })
	case message:
		return v.object()
	case []message:
		return value.Map(v, message.object)
	}
	return v
}

func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
