package guard_test

import (
	"reflect"
	"testing"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
)

// What is shared by its calls must not be copied, and go vet says so where somebody
// does: each of these types holds a lock, as vet sees it, by value.
func TestVetSeesCopies(t *testing.T) {
	for _, v := range []any{(*circuit.Breaker)(nil), (*circuit.Permit)(nil), (*limit.Limit)(nil), (*hedge.Hedge)(nil), (*retry.Quota)(nil)} {
		if of := reflect.TypeOf(v).Elem(); !locks(of) {
			t.Errorf("a copy of a %v is not seen", of)
		}
	}
}

// locks reports whether vet takes a type for one that must not be copied: it or one
// of its fields has the methods Lock and Unlock by its pointer.
func locks(of reflect.Type) bool {
	if of.Kind() != reflect.Struct {
		return of.Kind() == reflect.Array && locks(of.Elem())
	}
	pointer := reflect.PointerTo(of)
	_, lock := pointer.MethodByName("Lock")
	_, unlock := pointer.MethodByName("Unlock")
	if lock && unlock {
		return true
	}
	for i := range of.NumField() {
		if f := of.Field(i); f.Type.Name() == "noCopy" || locks(f.Type) {
			return true
		}
	}
	return false
}
