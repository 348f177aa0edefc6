package main

import (
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

func TestTheElectionIsTheOneOfTheEnvironmentWithTheSharesOfTheDefaults(t *testing.T) {
	t.Setenv("LEASE", "bench/leader")
	t.Setenv("LEASE_SECONDS", "15")
	options := &ctrl.Options{}
	if is, err := elect(options); !is || err != nil {
		t.Fatalf("elect() = %v, %v", is, err)
	}
	if options.LeaderElectionNamespace != "bench" || options.LeaderElectionID != "leader" || !options.LeaderElection || !options.LeaderElectionReleaseOnCancel {
		t.Errorf("the options are %+v", options)
	}
	if *options.LeaseDuration != 15*time.Second || *options.RenewDeadline != 10*time.Second || *options.RetryPeriod != 2*time.Second {
		t.Errorf("the durations are %v, %v and %v, want 15 s, 10 s and 2 s", *options.LeaseDuration, *options.RenewDeadline, *options.RetryPeriod)
	}
}

func TestWithoutALeaseThereIsNoElectionAndAWrongOneIsRefused(t *testing.T) {
	options := &ctrl.Options{}
	if is, err := elect(options); is || err != nil || options.LeaderElection {
		t.Errorf("elect() = %v, %v", is, err)
	}
	for lease, seconds := range map[string]string{"leader": "15", "bench/leader": "soon", "/leader": "15"} {
		t.Setenv("LEASE", lease)
		t.Setenv("LEASE_SECONDS", seconds)
		if _, err := elect(options); err == nil {
			t.Errorf("LEASE=%s LEASE_SECONDS=%s was taken", lease, seconds)
		}
	}
}
