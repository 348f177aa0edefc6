package simple_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/controller/webhook"
)

// The test compares the permissions that webhooks and shards add to the default ones. A random value in Secrets and
// the private keys of the webhooks are canaries: nothing that the operator shows may have them.
func TestWebhooksAndShardsUseExactlyThePermissionsThatTheirValuesGrant(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	w := newSharedWorld(t, file)
	first, second := w.startShard("first"), w.startShard("second")
	server, stop := w.startWebhooks(first, func(options *webhook.Options) {
		options.Logger, options.Registry = w.logger, first.manager.Registry()
	})
	if err := server.WaitReady(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.create(w.hero("pegasus", 1))
	w.awaitReady("pegasus", 1)
	w.awaitLists()
	w.addKey(true)
	w.removeAndAwait(configurations, "", hooksConfiguration)
	w.removeAndAwait(secrets, install.Namespace, hooksSecret)
	w.addKey(false)
	w.collect(first)
	stop()
	second.stop()
	for _, refused := range refusedApplies {
		w.awaitRefusedApply(first, refused)
	}
	first.stop()
	if err := w.cluster.Stop(); err != nil {
		t.Error(err)
	}

	w.shown["log"], w.shown["audit log"] = w.log.String(), string(must(os.ReadFile(file))(t))
	w.checkShown()
	found := auditedIn(t, file)
	byDefault, granted := grantedBy(t, nil), grantedBy(t, withWebhooksAndShards)
	used := slices.Collect(maps.Keys(found.used))
	var asked []permission // by the API server during an apply, so no request of its own uses it
	for _, each := range refusedApplies {
		asked = append(asked, each.permission())
		is := func(refused string) bool { return strings.Contains(refused, each.message) }
		if !slices.ContainsFunc(found.refused, is) {
			t.Errorf("the audit log has no apply that is refused without %s", each.permission())
		}
		found.refused = slices.DeleteFunc(found.refused, is)
	}
	slices.Sort(asked)
	if unused := without(granted, slices.Concat(used, slices.Collect(maps.Keys(byDefault)))...); !slices.Equal(unused, asked) {
		t.Errorf("granted for webhooks and shards, and not used: %q, want only %q", unused, asked)
	}
	if missing := without(found.used, slices.Collect(maps.Keys(granted))...); len(missing) > 0 {
		t.Errorf("used, and not granted: %q", missing)
	}
	if len(found.refused) > 0 {
		t.Errorf("the API server refused requests: %q", found.refused)
	}
	more := without(granted, slices.Collect(maps.Keys(byDefault))...)
	page := string(must(os.ReadFile("../../docs/permissions.md"))(t))
	for _, line := range []string{
		fmt.Sprintf("| granted in addition | %d |", len(more)),
		fmt.Sprintf("| used, by the audit log | %d |", len(more)-len(asked)),
		fmt.Sprintf("| asked for by the API server during an apply | %d |", len(asked)),
	} {
		if !strings.Contains(page, line) {
			t.Errorf("docs/permissions.md does not say %q", line)
		}
	}
}
