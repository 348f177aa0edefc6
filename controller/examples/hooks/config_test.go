package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAMistakeInAConfigurationIsAnErrorThatNamesTheField(t *testing.T) {
	for config, want := range map[string]string{
		"":                  "configVersion",
		"configVersion: v0": `configVersion is "v0"; allowed is v1`,
		"configVersion: v1": "there is no binding",
		"configVersion: v1\nonStartup: 1\nonShutdown: 1":                                                                                                                            `unknown field "onShutdown"`,
		"configVersion: v1\nonStartup: 1\nsettings: {executionBurst: 1}":                                                                                                            "settings.executionMinInterval is missing",
		"configVersion: v1\nkubernetesValidating: [{name: a.b.c}]":                                                                                                                  "kubernetesValidating[0].rules is missing",
		"configVersion: v1\nkubernetesValidating: [{rules: [{}]}]":                                                                                                                  "kubernetesValidating[0].name is missing",
		"configVersion: v1\nkubernetesMutating: [{name: a.b.c, queue: q}]":                                                                                                          `unknown field "kubernetesMutating[0].queue"`,
		"configVersion: v1\nkubernetesMutating: [{name: a.b.c, rules: [{apiGroups: [''], apiVersions: [v1], resources: [pods]}]}]":                                                  "kubernetesMutating[0].rules[0].operations is missing",
		"configVersion: v1\nkubernetesMutating: [{name: a.b.c, rules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [READ]}]}]":                              `rules[0].operations has "READ"`,
		"configVersion: v1\nkubernetesMutating: [{name: a.b.c, timeoutSeconds: 31, rules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: ['*']}]}]":           "timeoutSeconds is 31",
		"configVersion: v1\nkubernetesMutating: [{name: a.b.c, failurePolicy: Retry, rules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: ['*']}]}]":         `failurePolicy is "Retry"`,
		"configVersion: v1\nkubernetesMutating: [{name: a.b.c, sideEffects: Some, rules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: ['*']}]}]":            `sideEffects is "Some"`,
		"configVersion: v1\nkubernetesMutating: [{name: a.b.c, includeSnapshotsFrom: [pods], rules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: ['*']}]}]": `kubernetesMutating[0].includeSnapshotsFrom names "pods"`,
		"configVersion: v1\nkubernetesCustomResourceConversion: [{name: a, crdName: crontabs}]":                                                                                     `kubernetesCustomResourceConversion[0].crdName is "crontabs"`,
		"configVersion: v1\nkubernetesCustomResourceConversion: [{name: a, crdName: crontabs.example.com, conversions: [{fromVersion: v1}]}]":                                       "conversions[0] lacks fromVersion or toVersion",
		"configVersion: v1\nschedule: [{crontab: '* * *'}]":                                                                                                                         `schedule[0].crontab is "* * *"`,
		"configVersion: v1\nschedule: [{crontab: '0 0 30 2 *'}]":                                                                                                                    "never comes",
		"configVersion: v1\nschedule: [{crontab: '* * * * *', jqFilter: .x}]":                                                                                                       `unknown field "schedule[0].jqFilter"`,
		"configVersion: v1\nschedule: [{crontab: '* * * * *', includeSnapshotsFrom: [pods]}]":                                                                                       `schedule[0].includeSnapshotsFrom names "pods"`,
		"configVersion: v1\nkubernetes: [{name: x}]":                                                                                                                                "kubernetes[0].kind is missing",
		"configVersion: v1\nkubernetes: [{kind: Pod, group: g}, {kind: Secret}]":                                                                                                    `kubernetes[0].name: "kubernetes" is taken`,
		"configVersion: v1\nkubernetes: [{kind: Pod}, {kind: Secret, includeSnapshotsFrom: [kubernetes]}]":                                                                          `kubernetes[1].includeSnapshotsFrom names "kubernetes", which several`,
		"configVersion: v1\nkubernetes: [{kind: Pod, watchEvent: [Changed]}]":                                                                                                       `kubernetes[0].executeHookOnEvent has "Changed"`,
		"configVersion: v1\nkubernetes: [{kind: Pod, executeHookOnEvent: [Changed]}]":                                                                                               `kubernetes[0].executeHookOnEvent has "Changed"`,
		"configVersion: v1\nkubernetes: [{kind: Pod, jqFilter: '.a['}]":                                                                                                             `kubernetes[0].jqFilter is ".a["`,
		"configVersion: v1\nkubernetes: [{kind: Pod, resynchronizationPeriod: soon}]":                                                                                               `kubernetes[0].resynchronizationPeriod is "soon"`,
		"configVersion: v1\nkubernetes: [{kind: Pod, namespace: {labelSelector: {matchLabels: {a: 'b c'}}}}]":                                                                       "kubernetes[0].namespace.labelSelector",
		"configVersion: v1\nkubernetes: [{kind: Pod, nameSelector: {names: [a]}}]":                                                                                                  `unknown field "names"`,
		"configVersion: v1\nkubernetes: [{kind: Pod, labelSelector: {matchExpressions: [{key: a, operator: Is}]}}]":                                                                 "kubernetes[0].labelSelector",
		"configVersion: v1\nkubernetes: [{kind: Pod, fieldSelector: {matchExpressions: [{field: a, operator: In}]}}]":                                                               `fieldSelector.matchExpressions[0].operator is "In"`,
	} {
		if _, err := parseConfig([]byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want one with %q", config, err, want)
		}
	}
}

func TestAConfigurationMayBeJSONOrYAML(t *testing.T) {
	for _, text := range []string{
		`{"configVersion": "v1", "onStartup": 1.5, "kubernetes": [{"kind": "Pod", "includeSnapshotsFrom": "kubernetes", "nameSelector": ["x"]}]}`,
		"configVersion: v1\nonStartup: 1.5\nkubernetes: [{kind: Pod, includeSnapshotsFrom: [kubernetes], nameSelector: {matchNames: [x]}}]",
	} {
		config, err := parseConfig([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		binding := config.Kubernetes[0]
		if *config.OnStartup != 1.5 || binding.Name != "kubernetes" || binding.Queue != mainQueue || binding.NameSelector.MatchNames[0] != "x" || binding.IncludeSnapshotsFrom[0] != "kubernetes" {
			t.Errorf("%s is read as %+v", text, config)
		}
	}
}

func TestKindsAreFoundByTheNamesOfKubectl(t *testing.T) {
	known := servedKinds()
	for _, name := range []string{"Pod", "pod", "pods", "PODS", "po"} {
		if found, err := known.find(t.Context(), "", name); err != nil || found.Kind != "Pod" || found.resource != "pods" || !found.namespaced {
			t.Errorf("%s is %v: %v", name, found, err)
		}
	}
	for _, name := range []string{"pods/status", "widget", ""} {
		if found, err := known.find(t.Context(), "v1", name); err == nil {
			t.Errorf("%s is %v", name, found)
		}
	}
}

func TestBindingsThatCannotShareAWatchAreAnErrorThatNamesThem(t *testing.T) {
	config := func(field string) string {
		return "configVersion: v1\nkubernetes: [{name: x, kind: Pod, fieldSelector: {matchExpressions: [{field: " + field + ", operator: Equals, value: a}]}}]"
	}
	restricted := func(configs ...string) error {
		var hooks []*Hook
		for i, text := range configs {
			parsed, err := parseConfig([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			hooks = append(hooks, &Hook{Name: "hook" + string(rune('0'+i)), Config: parsed})
		}
		logger := slog.New(slog.DiscardHandler)
		if err := bind(t.Context(), hooks, servedKinds(), logger); err != nil {
			return err
		}
		_, _, err := newEngine(hooks, logger).inputs()
		return err
	}
	if err := restricted(config("status.phase"), config("metadata.name")); err == nil || !strings.Contains(err.Error(), `hook hook0: binding "x": fieldSelector names status.phase`) {
		t.Errorf("the error is %v", err)
	}
	phase := strings.Replace(config("status.phase"), "Pod", "Namespace", 1)
	if err := restricted(phase, inProduction); err == nil || !strings.Contains(err.Error(), `hook hook0: binding "x": fieldSelector names status.phase`) {
		t.Errorf("the error is %v", err)
	}
	if err := restricted(config("status.phase"), config("status.phase")); err != nil {
		t.Errorf("equal selectors fail: %v", err)
	}
	if err := restricted("configVersion: v1\nkubernetes: [{kind: Widget}]"); err == nil || !strings.Contains(err.Error(), `hook hook0: kubernetes[0]: kind "Widget"`) {
		t.Errorf("the error is %v", err)
	}
}

func TestEveryHookThatIsWrongIsNamedAtOnce(t *testing.T) {
	folder := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("fails", "#!/bin/sh\nexit 3\n", 0o700)
	write("nested/wrong", "#!/bin/sh\necho 'configVersion: v9'\n", 0o700)
	write("good", "#!/bin/sh\necho '{configVersion: v1, onStartup: 1}'\n", 0o700)
	write("lib/functions", "#!/bin/sh\nexit 1\n", 0o700)
	if err := os.Symlink(filepath.Join(folder, "good"), filepath.Join(folder, "linked")); err != nil {
		t.Fatal(err)
	}
	write(".hidden", "#!/bin/sh\nexit 1\n", 0o700)
	write("README.md", "no hook", 0o600)
	runs := &runner{logger: slog.New(slog.DiscardHandler), timeout: time.Minute, grace: time.Second}
	hooks, err := loadHooks(t.Context(), folder, runs, runs.logger)
	if len(hooks) != 2 || hooks[0].Name != "good" || hooks[1].Name != "linked" {
		t.Errorf("the hooks are %v, want good and linked", hooks)
	}
	if err == nil {
		t.Fatal("there is no error")
	}
	for _, want := range []string{"hook fails: running it with --config: exit status 3", `hook nested/wrong: configVersion is "v9"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "lib") || strings.Contains(err.Error(), "README") {
		t.Errorf("the error names a file that is no hook: %v", err)
	}
}
