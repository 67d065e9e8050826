package mapper

import (
	"testing"
	"time"
)

// The loop is woken for what was told during a turn, for what is due earlier than
// what it waits for, and for the end; for nothing else.
func TestInbox(t *testing.T) {
	b := inbox{wake: make(chan struct{}, 1)}
	woken := func() bool {
		select {
		case <-b.wake:
			return true
		default:
			return false
		}
	}
	turn := func(n int, next time.Time, over bool) {
		t.Helper()
		list, ok := b.take()
		if !ok || len(list) != n {
			t.Fatalf("a turn with %d messages, %v; want %d", len(list), ok, n)
		}
		b.leave(next, over)
	}
	var never time.Time
	due := time.Unix(100, 0)
	if _, ok := b.take(); ok {
		t.Error("a turn with nothing to do")
	}
	b.put(nothing)
	b.put(nothing)
	turn(2, never, false)
	if woken() {
		t.Error("the loop is woken for nothing")
	}

	b.put(nothing)
	if _, ok := b.take(); !ok {
		t.Fatal("no turn")
	}
	b.put(nothing)
	if _, ok := b.take(); ok {
		t.Error("two turns at once")
	}
	b.leave(due, false)
	if !woken() {
		t.Error("what was told during a turn is left undone")
	}
	turn(1, due, false)
	if until, over := b.rest(); !woken() || !until.Equal(due) || over {
		t.Errorf("the loop waits until %v, %v; want %v", until, over, due)
	}

	b.put(nothing)
	turn(1, due.Add(1), false)
	if woken() {
		t.Error("the loop is woken although it waits for something earlier")
	}
	b.put(nothing)
	if _, ok := b.take(); !ok {
		t.Fatal("no turn")
	}
	if until, _ := b.rest(); !until.IsZero() {
		t.Errorf("the loop waits until %v during a turn, which would be again and again where that has passed", until)
	}
	b.leave(due, false)
	if !woken() {
		t.Error("the loop does not know of what is due")
	}

	b.put(nothing)
	turn(1, never, true)
	if _, over := b.rest(); !woken() || !over {
		t.Error("the loop does not know of the end")
	}
	b.put(nothing)
	if _, ok := b.take(); ok {
		t.Error("a turn after the end")
	}
}
