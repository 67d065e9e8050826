package main

import (
	"fmt"
	"io"
	"log/slog"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
)

// connect dials the server that TEMPORAL_* and the configuration file name.
func connect(logs io.Writer) (client.Client, error) {
	opt, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return nil, fmt.Errorf("the connection to Temporal (TEMPORAL_*): %w", err)
	}
	opt.Logger = log.NewStructuredLogger(slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelWarn})))
	opt.DataConverter = payloads()
	address := opt.HostPort
	if address == "" {
		address = client.DefaultHostPort
	}
	c, err := client.Dial(opt)
	if err != nil {
		return nil, fmt.Errorf("no Temporal server at %s: %w; TEMPORAL_ADDRESS names another, and `bide cluster dev` starts one", address, err)
	}
	return c, nil
}

// payloads compresses what goes through the server.
func payloads() converter.DataConverter {
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), converter.NewZlibCodec(converter.ZlibCodecOptions{}))
}
