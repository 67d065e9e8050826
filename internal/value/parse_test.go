package value

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"testing"
)

// slow is what encoding/json makes of a text.
func slow(text []byte) (any, bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil, false
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, false
	}
	return Normal(v), true
}

var texts = []string{
	`null`, ` true `, `false`, `0`, `-0`, `-1`, `12.50`, `1e3`, `1E-2`, `123456789012345678`, `1234567890123456789`, `9223372036854775808`,
	`"a"`, `"a\n\"b\u00e9\ud83d\ude00"`, `"\ud800"`, `"é"`, "\"\xff\"", `"\x"`, "\"a\nb\"", `{}`, `[]`, `[1, 2 ,{"a":[null]}]`,
	`{"a":1,"a":2}`, `{"a" : {"b" : "c"} , "d":[]}`, `{"a":1,}`, `[1,]`, `[1 2]`, `{"a"}`, `01`, `1.`, `.5`, `-`, `+1`, `1e`, `nul`, `tru`,
	`{"a":1} x`, ``, ` `, `"`, `"\`, `{`, `[`, `{"a":`, "\ufeff1", `{1:2}`, `1 2`, `"\u12"`, `--1`, `-01`, `0.0`, `1.0`, `100e0`,
}

func TestFastTakesWhatJSONTakes(t *testing.T) {
	for _, text := range texts {
		v, ok := fast(text)
		want, valid := slow([]byte(text))
		if ok && (!valid || !reflect.DeepEqual(v, want)) {
			t.Errorf("%q: fast gives %#v, encoding/json %#v (%t)", text, v, want, valid)
		}
		got, err := Parse([]byte(text))
		if (err == nil) != valid || valid && !reflect.DeepEqual(got, want) {
			t.Errorf("Parse(%q) = %#v, %v; encoding/json gives %#v (%t)", text, got, err, want, valid)
		}
	}
}

// What is common must not fall back to the slow way.
func TestFastTakesTheCommon(t *testing.T) {
	for _, text := range []string{`{"id":1,"name":"x y","f":1.5,"list":[true,null],"e":"a\tb"}`, `"é"`, ` [ ] `} {
		if _, ok := fast(text); !ok {
			t.Errorf("%s is not taken", text)
		}
	}
}

func FuzzFast(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, ok := fast(text)
		if !ok {
			return
		}
		want, valid := slow([]byte(text))
		if !valid || !reflect.DeepEqual(v, want) {
			t.Fatalf("%q: fast gives %#v, encoding/json %#v (%t)", text, v, want, valid)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	text := []byte(`{"id":123456,"group":456,"name":"item-123456","pad":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}
