module github.com/bide-dev/bide/contrib/grpc

go 1.26.0

require (
	github.com/bide-dev/bide v0.0.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20250218202821-56aae31c358a
	google.golang.org/grpc v1.72.2
	google.golang.org/protobuf v1.36.12
)

require (
	golang.org/x/net v0.35.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.22.0 // indirect
)

replace github.com/bide-dev/bide => ../..
