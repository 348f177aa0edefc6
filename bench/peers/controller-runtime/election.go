package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// elect sets the election of a leader that the environment asks for, and returns whether it does. The lease is
// released at the end, and a standby fills its caches, as Bellerophon does. The shares of the duration are those of
// the library's defaults: 15 s, 10 s and 2 s.
func elect(options *ctrl.Options) (bool, error) {
	lease := os.Getenv("LEASE")
	if lease == "" {
		return false, nil
	}
	namespace, name, _ := strings.Cut(lease, "/")
	seconds, err := strconv.Atoi(os.Getenv("LEASE_SECONDS"))
	if namespace == "" || name == "" || err != nil || seconds < 1 {
		return false, fmt.Errorf("LEASE is %q and LEASE_SECONDS is %q; give namespace/name and a number", lease, os.Getenv("LEASE_SECONDS"))
	}
	duration := time.Duration(seconds) * time.Second
	options.LeaderElection, options.LeaderElectionReleaseOnCancel = true, true
	options.LeaderElectionNamespace, options.LeaderElectionID = namespace, name
	options.LeaseDuration = &duration
	options.RenewDeadline, options.RetryPeriod = new(duration*2/3), new(duration*2/15)
	options.Controller.EnableWarmup = new(true)
	return true, nil
}
