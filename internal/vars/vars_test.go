package vars_test

import (
	"testing"

	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
)

func TestScopes(t *testing.T) {
	run := vars.New(nil)
	run.SetTrusted("a", "run")
	run.SetTrusted("b", "run")
	item := run.Child()
	item.Set("a", int64(1))

	if v, ok := item.Lookup("a"); !ok || v.V != int64(1) || v.Origin != template.Data {
		t.Errorf("item a = %+v, %v; want the item's own, as data", v, ok)
	}
	if v, ok := item.Lookup("b"); !ok || v.V != "run" || v.Origin != template.Trusted {
		t.Errorf("item b = %+v, %v; want the run's, trusted", v, ok)
	}
	if v, _ := run.Lookup("a"); v.V != "run" {
		t.Errorf("setting a in the item changed the run's a to %v", v.V)
	}
	if _, ok := item.Lookup("c"); ok {
		t.Error("found a variable that nobody set")
	}
}

func TestRecording(t *testing.T) {
	s := vars.New(nil)
	s.Set("before", 1)
	outer := s.Mark()
	s.Set("x", 1)
	inner := s.Mark()
	s.Set("y", 2)
	s.Set("x", 3)
	if got := s.Since(inner); len(got) != 2 || got["x"] != 3 || got["y"] != 2 {
		t.Errorf("inner = %v, want x:3 y:2", got)
	}
	if got := s.Since(outer); len(got) != 2 || got["x"] != 3 {
		t.Errorf("outer = %v, want x:3 y:2", got)
	}
	s.Set("after", 1)
	if got := s.Since(s.Mark()); got != nil {
		t.Errorf("nothing was set, but %v is told", got)
	}
}
