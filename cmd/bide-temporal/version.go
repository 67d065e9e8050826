package main

import (
	"fmt"
	"os"
	"strings"

	"go.temporal.io/api/deployment/v1"
	enums "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// The variables that Temporal's worker controller for Kubernetes sets: the deployment to
// which a worker belongs, and which build of it the worker is. Together they are the
// worker's version.
const (
	deploymentVariable = "TEMPORAL_DEPLOYMENT_NAME"
	buildVariable      = "TEMPORAL_WORKER_BUILD_ID"
)

// versionOf gives the options with which a worker registers as the version that the
// environment names; the zero options if it names none. A run stays on the version with
// which it began, also when its coordinator continues as a new execution. The same is true
// for its lanes.
func versionOf(getenv func(string) string) (o worker.DeploymentOptions, err error) {
	name, build := getenv(deploymentVariable), getenv(buildVariable)
	switch {
	case name == "" && build == "":
		return o, nil
	case build == "":
		return o, fmt.Errorf("%s is set (%s), and %s is not: a version of a worker has both; set it too, or none of them", deploymentVariable, name, buildVariable)
	case name == "":
		return o, fmt.Errorf("%s is set (%s), and %s is not: a version of a worker has both; set it too, or none of them", buildVariable, build, deploymentVariable)
	case strings.ContainsAny(name, ".:"):
		return o, fmt.Errorf("%s is %q: a Temporal server takes no name with a dot or a colon; choose another one", deploymentVariable, name)
	}
	return worker.DeploymentOptions{UseVersioning: true, DefaultVersioningBehavior: workflow.VersioningBehaviorPinned,
		Version: worker.WorkerDeploymentVersion{DeploymentName: name, BuildID: build}}, nil
}

// versionText gives a version as Temporal writes it; "" for none.
func versionText(v *deployment.WorkerDeploymentVersion) string {
	if v.GetDeploymentName() == "" || v.GetBuildId() == "" {
		return ""
	}
	return v.DeploymentName + ":" + v.BuildId
}

// versionOfPoller gives the version for which a worker asks for work; "" for none.
func versionOfPoller(o *deployment.WorkerDeploymentOptions) string {
	if o.GetWorkerVersioningMode() != enums.WORKER_VERSIONING_MODE_VERSIONED {
		return ""
	}
	return versionText(&deployment.WorkerDeploymentVersion{DeploymentName: o.DeploymentName, BuildId: o.BuildId})
}

// startAs gives the command that starts a worker of a version.
func startAs(version string) string {
	if version == "" {
		return fmt.Sprintf("start bide worker without %s", deploymentVariable)
	}
	name, build, _ := strings.Cut(version, ":")
	return fmt.Sprintf("start bide worker with %s=%s %s=%s", deploymentVariable, name, buildVariable, build)
}

// makeCurrent gives the command that makes a version the one on which runs begin.
func makeCurrent(version string) string {
	name, build, _ := strings.Cut(version, ":")
	return fmt.Sprintf("temporal worker deployment set-current-version --deployment-name %s --build-id %s", name, build)
}

// pinnedTo gives the version on which a run stays, or to which somebody has moved it; "" if
// it stays on none.
func pinnedTo(i *workflowpb.WorkflowExecutionVersioningInfo) string {
	if o := i.GetVersioningOverride(); o.GetOverride() != nil {
		return versionText(o.GetPinned().GetVersion())
	}
	if i.GetBehavior() != enums.VERSIONING_BEHAVIOR_PINNED {
		return ""
	}
	return versionText(i.GetDeploymentVersion())
}

// environment is os.Getenv without spaces before and after the value.
func environment(name string) string { return strings.TrimSpace(os.Getenv(name)) }
