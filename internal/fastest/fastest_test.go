package fastest

import (
	"fmt"
	"testing"
	"time"
)

func TestAnswers(t *testing.T) {
	var a Answers
	if a.Least("x") != 0 {
		t.Error("an answer is known")
	}
	for _, took := range []time.Duration{5, 3, 9} {
		a.Took("x", took)
	}
	a.Took("y", 1)
	if a.Least("x") != 3 || a.Least("y") != 1 {
		t.Errorf("%v, %v", a.Least("x"), a.Least("y"))
	}
	for i := range 10 * most {
		a.Took(fmt.Sprint(i), 1)
		if len(a.took) > most {
			t.Fatal("it grows without end")
		}
	}
}
