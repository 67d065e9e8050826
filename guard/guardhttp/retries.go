package guardhttp

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/bide-dev/bide/retry"
)

const retriesHeader = "Retries-Left"

// sendRetries tells the server how many retries it may make itself, if the context
// of the request bounds them: what is left of them with a first attempt, and none
// with a retry. What is repeated at one level is not repeated at those below too.
func sendRetries(request *http.Request, number int) {
	left, bounded := retry.RetriesLeft(request.Context())
	if !bounded {
		return
	}
	if number > 1 {
		left = 0
	}
	request.Header.Set(retriesHeader, strconv.Itoa(left))
}

// ReceiveRetries returns a handler whose requests make no more retries, all that
// they ask of others included, than their sender allows, which [Transport] sends in
// the header Retries-Left if [retry.WithRetries] bounds them: n at the top are at
// most n in each server that a first attempt comes to, and none in one that a retry
// comes to, in place of (n+1)² attempts at the second level and (n+1)³ at the third.
// A request without the header is as it was; one whose header is no number is
// answered with 400.
func ReceiveRetries(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := r.Header.Get(retriesHeader)
		if text == "" {
			next.ServeHTTP(w, r)
			return
		}
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			http.Error(w, fmt.Sprintf("the header %s is %q; it must be a number of retries, as in 3", retriesHeader, text), http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r.WithContext(retry.WithRetries(r.Context(), int(n))))
	})
}
