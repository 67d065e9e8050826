package telemetry

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// message is a message of the protocol: its fields in the order in which they are sent. One
// that is zero is left out, unless it is given. The tests read what is sent with the code that is
// generated for the protocol. The program does without it: with that code a start takes 6 %
// more processor time (61 pairs of --version), and the program has 1.8 MB more.
type message []field

type field struct {
	number int    // in protobuf
	name   string // in JSON
	value  any    // of one of the types in appendTo and plain
}

// The kinds of values beside those of Go.
type (
	enum  int32               // JSON has its number
	fixed uint64              // 64 bits in protobuf, a text in JSON
	id    []byte              // in hexadecimal in JSON, where protobuf's own JSON has base64
	given struct{ value any } // is there if it is zero too
)

// encode gives the bytes of a message, as protobuf or as the protocol's JSON.
func encode(m message, asJSON bool) ([]byte, error) {
	if asJSON {
		return json.Marshal(m.plain())
	}
	return m.appendTo(nil), nil
}

// The types of fields in protobuf.
const (
	varint = 0
	bits64 = 1
	sized  = 2
)

// appendTo writes the message in protobuf.
func (m message) appendTo(b []byte) []byte {
	for _, f := range m {
		tag := func(kind int) { b = binary.AppendUvarint(b, uint64(f.number<<3|kind)) }
		bytes := func(text []byte) {
			tag(sized)
			b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
		}
		value, ok := f.has()
		if !ok {
			continue
		}
		switch v := value.(type) {
		case string:
			bytes([]byte(v))
		case id:
			bytes(v)
		case bool:
			tag(varint)
			b = append(b, map[bool]byte{true: 1}[v])
		case enum:
			tag(varint)
			b = binary.AppendUvarint(b, uint64(v))
		case int64:
			tag(varint)
			b = binary.AppendUvarint(b, uint64(v))
		case fixed:
			tag(bits64)
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		case float64:
			tag(bits64)
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		case []uint64:
			var text []byte
			for _, n := range v {
				text = binary.LittleEndian.AppendUint64(text, n)
			}
			bytes(text)
		case []float64:
			var text []byte
			for _, x := range v {
				text = binary.LittleEndian.AppendUint64(text, math.Float64bits(x))
			}
			bytes(text)
		case message:
			bytes(v.appendTo(nil))
		case []message:
			for _, one := range v {
				bytes(one.appendTo(nil))
			}
		}
	}
	return b
}

// plain gives the message as encoding/json writes it.
func (m message) plain() map[string]any {
	out := make(map[string]any, len(m))
	for _, f := range m {
		value, ok := f.has()
		if !ok {
			continue
		}
		switch v := value.(type) {
		case id:
			out[f.name] = hex.EncodeToString(v)
		case int64:
			out[f.name] = strconv.FormatInt(v, 10)
		case fixed:
			out[f.name] = strconv.FormatUint(uint64(v), 10)
		case float64:
			out[f.name] = jsonNumber(v)
		case []uint64:
			texts := make([]string, len(v))
			for i, n := range v {
				texts[i] = strconv.FormatUint(n, 10)
			}
			out[f.name] = texts
		case []float64:
			numbers := make([]any, len(v))
			for i, x := range v {
				numbers[i] = jsonNumber(x)
			}
			out[f.name] = numbers
		case message:
			out[f.name] = v.plain()
		case []message:
			list := make([]any, len(v))
			for i, one := range v {
				list[i] = one.plain()
			}
			out[f.name] = list
		default:
			out[f.name] = v
		}
	}
	return out
}

// jsonNumber is a number in JSON, which has no word for these three.
func jsonNumber(x float64) any {
	switch {
	case math.IsNaN(x):
		return "NaN"
	case math.IsInf(x, 1):
		return "Infinity"
	case math.IsInf(x, -1):
		return "-Infinity"
	}
	return x
}

// has gives the value of a field; ok is false where it is left out. A message that is there
// is not.
func (f *field) has() (v any, ok bool) {
	switch v := f.value.(type) {
	case given:
		return v.value, true
	case string:
		return v, v != ""
	case id:
		return v, len(v) > 0
	case bool:
		return v, v
	case enum:
		return v, v != 0
	case fixed:
		return v, v != 0
	case []uint64:
		return v, len(v) > 0
	case []float64:
		return v, len(v) > 0
	case message:
		return v, v != nil
	case []message:
		return v, len(v) > 0
	}
	panic(fmt.Sprintf("telemetry: the field %s is a %T", f.name, f.value))
}
