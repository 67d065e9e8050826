package vars_test

import (
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
)

// late counts how often its value is made.
type late struct{ v, made int }

func (l *late) Value() template.Value {
	l.made++
	return template.Value{V: l.v, Origin: template.Data}
}

// TestLateValues: a late value is as one that was set at once, and is made only if it is read.
func TestLateValues(t *testing.T) {
	run := vars.New(nil)
	s := run.Child()
	run.Set("last", 0)
	first, second, third := &late{v: 1}, &late{v: 2}, &late{v: 3}
	s.SetLate(first, "last", "a")
	s.SetLate(second, "last") // which leaves a
	if first.made != 1 || s.Get("a") != 1 {
		t.Errorf("a = %v, made %d times; want 1, made once", s.Get("a"), first.made)
	}
	s.SetLate(third, "last") // which nothing has read until now
	if got := s.Names(); second.made != 0 || len(got) != 2 {
		t.Errorf("made %d times, with the names %v; want it not made, and 2 names", second.made, got)
	}
	for range 2 {
		if got := s.Child().Get("last"); got != 3 || third.made != 1 {
			t.Errorf("last = %v, made %d times; want 3, made once", got, third.made)
		}
	}
	s.SetLate(&late{v: 4}, "last")
	s.Set("last", 5)
	if got := s.Get("last"); got != 5 {
		t.Errorf("last = %v; want what was set after it", got)
	}
	mark := s.Mark()
	s.SetLate(&late{v: 6}, "last", "b")
	if got := s.Since(mark); len(got) != 2 || got["last"] != 6 || got["b"] != 6 {
		t.Errorf("since the mark %v was set; want last and b, both 6", got)
	}
}

// TestItemScope: a variable that is set wins over one of the item.
func TestItemScope(t *testing.T) {
	s, err := vars.New(nil).ForItem(event.Item{Index: 1, ID: "x", Data: []byte(`{"n": 2}`)}, 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	if s.Get("attempt") != int64(4) || s.Get("item_total") != int64(3) || s.Get("item_id") != "x" {
		t.Errorf("attempt %v of item %v of %v; want 4 of x of 3", s.Get("attempt"), s.Get("item_id"), s.Get("item_total"))
	}
	s.Set("attempt", "mine")
	if got := s.Get("attempt"); got != "mine" {
		t.Errorf("attempt = %v; want what was set", got)
	}
	if _, err := vars.New(nil).ForItem(event.Item{ID: "x", Data: []byte(`{`)}, 1, 1); err == nil {
		t.Error("an item that is no JSON has a scope")
	}
}
