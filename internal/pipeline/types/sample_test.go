package types

import (
	"testing"

	"pgregory.net/rapid"
)

// TestSampleIsOfItsType: whatever the type, and different elements where the
// type has them.
func TestSampleIsOfItsType(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := drawType(t, 4)
		if v := Sample(typ, rapid.IntRange(0, 5).Draw(t, "n")); !Conforms(v, typ) {
			t.Fatalf("%v is no %s", v, typ)
		}
	})
	list := Sample(ListOf(String), 3).([]any)
	if len(list) != 3 || list[0] == list[1] {
		t.Errorf("a list of three: %v", list)
	}
}

func drawType(t *rapid.T, depth int) *Type {
	plain := []*Type{String, Int, Float, Boolean}
	if depth == 0 {
		return rapid.SampledFrom(plain).Draw(t, "plain")
	}
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return ListOf(drawType(t, depth-1))
	case 1:
		return MapOf(String, drawType(t, depth-1))
	case 2:
		return OptionalOf(drawType(t, depth-1))
	case 3:
		return RecordOf(Field{"a", drawType(t, depth-1)}, Field{"b", drawType(t, depth-1)})
	}
	return rapid.SampledFrom(plain).Draw(t, "plain")
}
