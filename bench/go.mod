module github.com/bide-dev/bide/bench

go 1.26.0

require (
	github.com/avast/retry-go/v5 v5.1.1
	github.com/bide-dev/bide v0.0.0
	github.com/cenkalti/backoff/v7 v7.0.3
	github.com/eapache/go-resiliency v1.7.0
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/sethvargo/go-retry v0.5.0
	github.com/sony/gobreaker/v2 v2.4.0
	golang.org/x/time v0.16.0
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
)

replace github.com/bide-dev/bide => ..
