package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	common "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestTrouble: what is said of a run is what is wrong: a worker that is frozen is no
// store that cannot be read, and a server that has just started has workers where the
// run was heard of.
func TestTrouble(t *testing.T) {
	fc := failures(crypt{})
	now := time.Now()
	pending := func(name string, err error) *workflowservice.DescribeWorkflowExecutionResponse {
		return &workflowservice.DescribeWorkflowExecutionResponse{PendingActivities: []*workflowpb.PendingActivityInfo{{
			ActivityType: &common.ActivityType{Name: name}, Attempt: 2, LastFailure: fc.ErrorToFailure(err)}}}
	}
	silent := temporal.NewTimeoutError(enums.TIMEOUT_TYPE_HEARTBEAT, nil)
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{adoptActivity, errors.New("/store: permission denied"), "the store cannot be read: /store: permission denied"},
		{recordActivity, errors.New("/store: no space left on device"), "the store cannot be written: /store: no space left on device"},
		{adoptActivity, silent, "a worker does not answer"},
		{recordActivity, silent, "a worker does not answer"},
		{laneActivity, silent, ""},
	} {
		if got := failing(pending(c.name, c.err), fc); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" || strings.Contains(c.want, "worker") && strings.Contains(got, "cannot be") {
			t.Errorf("%s, %v: %q", c.name, c.err, got)
		}
	}
	for _, c := range []struct {
		state enums.PendingActivityState
		beat  time.Duration
		want  bool
	}{
		{enums.PENDING_ACTIVITY_STATE_STARTED, 10 * time.Second, true},
		{enums.PENDING_ACTIVITY_STATE_STARTED, 2 * time.Minute, false},
		{enums.PENDING_ACTIVITY_STATE_SCHEDULED, 10 * time.Second, false},
	} {
		d := &workflowservice.DescribeWorkflowExecutionResponse{PendingActivities: []*workflowpb.PendingActivityInfo{{State: c.state, LastHeartbeatTime: timestamppb.New(now.Add(-c.beat))}}}
		if got := heard(d, now); got != c.want {
			t.Errorf("%v, heard of %v ago: %v", c.state, c.beat, got)
		}
	}
}
