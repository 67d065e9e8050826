package telemetry

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// message is a message of the protocol: its fields, of which those that are zero
// are left out. It is written as protobuf and as the protocol's JSON.
//
// The encoding is our own: the library for it fills its registries at every start
// of bide, which takes longer than to open the journal.
type message []part

// part is a field of a message: its number, its name in JSON, and its value, which
// is a
//
//	string, []byte    text; an id, which is hexadecimal in JSON
//	enum              of an enumeration
//	int64, uint64     eight bytes, which are a text in JSON: int64 as a varint, uint64 fixed
//	bool
//	float64           only as a given
//	[]uint64, []float64   packed
//	message, []message
//
// or a given of one of these, which is written where it is zero as well.
type part struct {
	field int
	name  string
	value any
}

// enum is a value of an enumeration.
type enum int32

// given is a value that is there, also where it is zero: of a choice, or one that
// the protocol calls optional.
type given struct{ any }

// The wire types of protobuf.
const (
	wireVarint = 0
	wireFixed  = 1
	wireBytes  = 2
)

// present says whether a value is written, and gives it bare.
func present(v any) (any, bool) {
	switch x := v.(type) {
	case given:
		return x.any, true
	case string:
		return x, x != ""
	case []byte:
		return x, len(x) > 0
	case enum:
		return x, x != 0
	case int64:
		return x, x != 0
	case uint64:
		return x, x != 0
	case bool:
		return x, x
	case []uint64:
		return x, len(x) > 0
	case []float64:
		return x, len(x) > 0
	case message:
		return x, x != nil
	case []message:
		return x, len(x) > 0
	}
	panic(fmt.Sprintf("telemetry: a field is a %T", v))
}

// appendProto writes a message as protobuf.
func (m message) appendProto(b []byte) []byte {
	tag := func(field, wire int) { b = binary.AppendUvarint(b, uint64(field)<<3|uint64(wire)) }
	block := func(field int, content []byte) {
		tag(field, wireBytes)
		b = append(binary.AppendUvarint(b, uint64(len(content))), content...)
	}
	for _, p := range m {
		v, ok := present(p.value)
		if !ok {
			continue
		}
		switch x := v.(type) {
		case string:
			block(p.field, []byte(x))
		case []byte:
			block(p.field, x)
		case enum:
			tag(p.field, wireVarint)
			b = binary.AppendUvarint(b, uint64(x))
		case int64:
			tag(p.field, wireVarint)
			b = binary.AppendUvarint(b, uint64(x))
		case bool:
			tag(p.field, wireVarint)
			b = append(b, map[bool]byte{true: 1}[x])
		case uint64:
			tag(p.field, wireFixed)
			b = binary.LittleEndian.AppendUint64(b, x)
		case float64:
			tag(p.field, wireFixed)
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		case []uint64:
			var packed []byte
			for _, n := range x {
				packed = binary.LittleEndian.AppendUint64(packed, n)
			}
			block(p.field, packed)
		case []float64:
			var packed []byte
			for _, f := range x {
				packed = binary.LittleEndian.AppendUint64(packed, math.Float64bits(f))
			}
			block(p.field, packed)
		case message:
			block(p.field, x.appendProto(nil))
		case []message:
			for _, one := range x {
				block(p.field, one.appendProto(nil))
			}
		}
	}
	return b
}

// MarshalJSON writes a message as the protocol's JSON: protobuf's, but with
// numbers for enumerations and hexadecimal ids.
func (m message) MarshalJSON() ([]byte, error) {
	fields := make(map[string]any, len(m))
	for _, p := range m {
		v, ok := present(p.value)
		if !ok {
			continue
		}
		switch x := v.(type) {
		case []byte:
			v = hex.EncodeToString(x)
		case int64:
			v = strconv.FormatInt(x, 10)
		case uint64:
			v = strconv.FormatUint(x, 10)
		case float64:
			v = finite(x)
		case []uint64:
			texts := make([]string, len(x))
			for i, n := range x {
				texts[i] = strconv.FormatUint(n, 10)
			}
			v = texts
		}
		fields[p.name] = v
	}
	return json.Marshal(fields)
}

// finite is a number for JSON, which has a text for those that are none.
func finite(f float64) any {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return f
}

// encode gives the bytes of a message, as protobuf or as the protocol's JSON.
func encode(m message, asJSON bool) ([]byte, error) {
	if asJSON {
		return json.Marshal(m)
	}
	return m.appendProto(nil), nil
}
