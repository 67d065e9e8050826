package syntax

import (
	"strings"
	"testing"
)

func TestPlaceAt(t *testing.T) {
	for _, c := range []struct {
		src    string // the place is at ^
		kind   PlaceKind
		option OptionKind
		prefix string
	}{
		{"^", PlaceDecl, 0, ""},
		{"i^", PlaceDecl, 0, "i"},
		{"out a\n^", PlaceDecl, 0, ""},
		{"out a\nus^", PlaceDecl, 0, "us"},
		{"x = ^", PlaceExpr, 0, ""},
		{"x = ma^", PlaceExpr, 0, "ma"},
		{"x = f(a, b^)", PlaceExpr, 0, "b"},
		{"x = f(\n^", PlaceExpr, 0, ""},
		{"x = r.^", PlaceField, 0, ""},
		{"x = stdlib.ma^", PlaceField, 0, "ma"},
		{"in x: ^", PlaceType, 0, ""},
		{"in x: List<^", PlaceType, 0, ""},
		{"in x: { a: In^", PlaceType, 0, "In"},
		{"in x: Map<String, ^", PlaceType, 0, ""},
		{"type T = A | ^", PlaceType, 0, ""},
		{"in x: Int = ^", PlaceExpr, 0, ""},
		{"in ^", PlaceNone, 0, ""},
		{"x = f(a) with ^", PlaceOption, 0, ""},
		{"x = f(a) with ret^", PlaceOption, 0, "ret"},
		{"x = f(a) with retry: 3, ^", PlaceOption, 0, ""},
		{"x = f(a) with\n  retry: 3,\n  de^", PlaceOption, 0, "de"},
		{"x = f(a) with { retry: 3, ^", PlaceOption, 0, ""},
		{"x = f(a) with retry_on: [network], ^", PlaceOption, 0, ""},
		{"x = f(a) with fallback: g(1, 2), ^", PlaceOption, 0, ""},
		{"x = f(a) with backoff: ^", PlaceOptionValue, OptBackoff, ""},
		{"x = f(a) with backoff: ex^", PlaceOptionValue, OptBackoff, "ex"},
		{"x = f(a) with retry_on: [^", PlaceOptionValue, OptRetryOn, ""},
		{"x = f(a) with retry_on: [network, ti^", PlaceOptionValue, OptRetryOn, "ti"},
		{"policy p = ^", PlaceOption, 0, ""},
		{"policy p = retry: 3, ^", PlaceOption, 0, ""},
		{"policy p = jitter: f^", PlaceOptionValue, OptJitter, "f"},
		{"y = f(a) with retry: 3\nx = g(b, ^", PlaceExpr, 0, ""},
		{"y = f(g(a) with retry: 3, ^", PlaceOption, 0, ""},
		{"use std^", PlaceNamespace, 0, "std"},
		{"@ex^", PlaceAnnotation, 0, "ex"},
		{"x = 3^", PlaceNone, 0, ""},
		{"x = a # comm^", PlaceNone, 0, ""},
		{"x = \"text ^", PlaceNone, 0, ""},
		{"x = a # comment\n^", PlaceDecl, 0, ""},
	} {
		before, after, _ := strings.Cut(c.src, "^")
		got := PlaceAt([]byte(before+after), int32(len(before)))
		if got.Kind != c.kind || got.Option != c.option {
			t.Errorf("%q: kind %d option %v, want %d %v", c.src, got.Kind, got.Option, c.kind, c.option)
		}
		if got.Kind != PlaceNone && before[got.Prefix.Start:got.Prefix.End] != c.prefix {
			t.Errorf("%q: prefix %v", c.src, got.Prefix)
		}
	}
}

// FuzzPlaceAt checks every place of a source for a panic and for a prefix
// that ends at the place.
func FuzzPlaceAt(f *testing.F) {
	for _, src := range seedSources(f) {
		f.Add([]byte(src), uint16(len(src)/2))
	}
	f.Fuzz(func(t *testing.T, src []byte, at uint16) {
		offset := min(int(at), len(src))
		p := PlaceAt(src, int32(offset))
		if p.Kind != PlaceNone && (int(p.Prefix.End) != offset || p.Prefix.Start > p.Prefix.End) {
			t.Fatalf("%+v at %d of %q", p, offset, src)
		}
	})
}
