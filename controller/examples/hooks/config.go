package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/itchyny/gojq"
	"github.com/robfig/cron/v3"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// mainQueue is the queue of bindings that name none.
const mainQueue = "main"

// Config is what a hook prints when it is run with --config.
type Config struct {
	ConfigVersion string              `json:"configVersion"`
	OnStartup     *float64            `json:"onStartup"`
	Schedule      []ScheduleBinding   `json:"schedule"`
	Kubernetes    []KubernetesBinding `json:"kubernetes"`

	Validating []AdmissionBinding  `json:"kubernetesValidating"`
	Mutating   []AdmissionBinding  `json:"kubernetesMutating"`
	Conversion []ConversionBinding `json:"kubernetesCustomResourceConversion"`

	Settings *Settings `json:"settings"`

	limit *rate.Limiter // nil for none
}

// Settings limits how often a hook runs: a token bucket.
type Settings struct {
	ExecutionMinInterval *metav1.Duration `json:"executionMinInterval"`
	ExecutionBurst       *int             `json:"executionBurst"`
}

// limiter returns the limit of a hook's runs, or nil for none.
func (s *Settings) limiter() (*rate.Limiter, error) {
	switch {
	case s == nil || s.ExecutionMinInterval == nil && s.ExecutionBurst == nil:
		return nil, nil
	case s.ExecutionMinInterval == nil || s.ExecutionMinInterval.Duration <= 0:
		return nil, errors.New("settings.executionMinInterval is missing or not above 0; give a duration such as 3s")
	case s.ExecutionBurst != nil && *s.ExecutionBurst < 1:
		return nil, fmt.Errorf("settings.executionBurst is %d; allowed is 1 and above", *s.ExecutionBurst)
	}
	burst := 1
	if s.ExecutionBurst != nil {
		burst = *s.ExecutionBurst
	}
	return rate.NewLimiter(rate.Every(s.ExecutionMinInterval.Duration), burst), nil
}

// wait takes a token for a run of the hook. If there is none, it returns how long until there is one.
func (c *Config) wait() time.Duration {
	if c.limit == nil {
		return 0
	}
	reserved := c.limit.Reserve()
	wait := reserved.Delay()
	if wait > 0 {
		reserved.Cancel()
	}
	return wait
}

// NamedBinding holds the fields that bindings of all types have.
type NamedBinding struct {
	Name                 string `json:"name"`
	Group                string `json:"group"`
	IncludeSnapshotsFrom names  `json:"includeSnapshotsFrom"`
}

// CommonBinding holds the fields of bindings whose runs are queued.
type CommonBinding struct {
	NamedBinding
	AllowFailure bool   `json:"allowFailure"`
	Queue        string `json:"queue"`
}

// ScheduleBinding runs the hook at the times of a crontab.
type ScheduleBinding struct {
	CommonBinding
	Crontab string `json:"crontab"`

	times cron.Schedule
}

// KubernetesBinding runs the hook when objects change.
type KubernetesBinding struct {
	CommonBinding
	APIVersion                   string                `json:"apiVersion"`
	Kind                         string                `json:"kind"`
	ExecuteHookOnEvent           *[]string             `json:"executeHookOnEvent"`
	WatchEvent                   *[]string             `json:"watchEvent"` // the older name of executeHookOnEvent, which goes before it
	ExecuteHookOnSynchronization *bool                 `json:"executeHookOnSynchronization"`
	KeepFullObjectsInMemory      *bool                 `json:"keepFullObjectsInMemory"`
	NameSelector                 *NameSelector         `json:"nameSelector"`
	LabelSelector                *metav1.LabelSelector `json:"labelSelector"`
	FieldSelector                *FieldSelector        `json:"fieldSelector"`
	Namespace                    *NamespaceSelector    `json:"namespace"`
	JQFilter                     string                `json:"jqFilter"`

	// These fields change nothing. A queue never waits for the Synchronization of another queue. The cache
	// asks the API server again when its watch is silent, so no event is missed for longer than 90 s.
	WaitForSynchronization *bool  `json:"waitForSynchronization"`
	Resynchronization      string `json:"resynchronizationPeriod"`

	labels          labels.Selector
	namespaceLabels labels.Selector // nil without namespace.labelSelector
	fields          fields.Selector
	filter          *gojq.Code
}

// NameSelector selects objects, or namespaces, by their names.
type NameSelector struct {
	MatchNames []string `json:"matchNames"`
}

// NamespaceSelector selects the namespaces of objects. With both fields, a namespace that matches one of them is selected.
type NamespaceSelector struct {
	NameSelector  *NameSelector         `json:"nameSelector"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector"`
}

// FieldSelector selects objects for which all conditions on fields hold.
type FieldSelector struct {
	MatchExpressions []FieldExpression `json:"matchExpressions"`
}

// FieldExpression is a condition on one field.
type FieldExpression struct {
	Field    string `json:"field"`
	Operator string `json:"operator"`
	Value    string `json:"value"`
}

// names is a list of names, or a single name.
type names []string

// UnmarshalJSON reads a list of names, or a single name.
func (n *names) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte(`"`)) {
		*n = make(names, 1)
		return json.Unmarshal(data, &(*n)[0])
	}
	return json.Unmarshal(data, (*[]string)(n))
}

// UnmarshalJSON reads a selector, or a plain list of names.
func (s *NameSelector) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte("[")) {
		return json.Unmarshal(data, &s.MatchNames)
	}
	type plain NameSelector
	return decodeStrictly(data, (*plain)(s)) // The outer decoder is not strict within this method.
}

// parseConfig reads and checks what a hook printed. Errors name the field.
func parseConfig(printed []byte) (*Config, error) {
	config := &Config{}
	text, err := yaml.YAMLToJSONStrict(printed)
	if err == nil {
		err = decodeStrictly(text, config)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what --config printed: %w", err)
	}
	if config.ConfigVersion != "v1" {
		return nil, fmt.Errorf("configVersion is %q; allowed is v1", config.ConfigVersion)
	}
	if config.limit, err = config.Settings.limiter(); err != nil {
		return nil, err
	}
	if config.OnStartup == nil && len(config.Schedule)+len(config.Kubernetes) == 0 && !config.hasWebhooks() {
		return nil, errors.New("there is no binding; give onStartup, schedule, kubernetes or one of the webhooks")
	}
	for i := range config.Kubernetes {
		binding := &config.Kubernetes[i]
		binding.setDefaults("kubernetes")
		if err := binding.check(); err != nil {
			return nil, fmt.Errorf("kubernetes[%d].%w", i, err)
		}
	}
	for i := range config.Schedule {
		binding := &config.Schedule[i]
		binding.setDefaults("schedule")
		var err error
		if binding.times, err = crontab.Parse(binding.Crontab); err != nil {
			return nil, fmt.Errorf("schedule[%d].crontab is %q: %w", i, binding.Crontab, err)
		}
		if binding.times.Next(time.Now()).IsZero() {
			return nil, fmt.Errorf("schedule[%d].crontab is %q, which never comes", i, binding.Crontab)
		}
	}
	if err := config.checkWebhooks(); err != nil {
		return nil, err
	}
	return config, config.checkSnapshots()
}

// decodeStrictly decodes JSON, and fails for an unknown field with the path of that field.
func decodeStrictly(text []byte, into any) error {
	unknown, err := strictjson.UnmarshalStrict(text, into)
	if err != nil {
		return err
	}
	return errors.Join(unknown...)
}

// checkSnapshots returns an error for a snapshot of a binding that the hook does not have, or has twice. Bindings
// without snapshots may share a name.
func (c *Config) checkSnapshots() error {
	named, grouped := map[string]int{}, map[string]bool{}
	for _, binding := range c.Kubernetes {
		named[binding.Name]++
		grouped[binding.Name] = grouped[binding.Name] || binding.Group != ""
	}
	check := func(field string, i int, of NamedBinding) error {
		for _, name := range of.IncludeSnapshotsFrom {
			switch named[name] {
			case 0:
				return fmt.Errorf("%s[%d].includeSnapshotsFrom names %q, which is no kubernetes binding of the hook", field, i, name)
			case 1:
			default:
				return fmt.Errorf("%s[%d].includeSnapshotsFrom names %q, which several bindings have; give each a name of its own", field, i, name)
			}
		}
		if field == "kubernetes" && named[of.Name] > 1 && grouped[of.Name] {
			return fmt.Errorf("%s[%d].name: %q is taken, and the group has snapshots by name; give each binding a name of its own", field, i, of.Name)
		}
		return nil
	}
	var errs []error
	for i, binding := range c.Kubernetes {
		errs = append(errs, check("kubernetes", i, binding.NamedBinding))
	}
	for i, binding := range c.Schedule {
		errs = append(errs, check("schedule", i, binding.NamedBinding))
	}
	for i, binding := range c.Validating {
		errs = append(errs, check("kubernetesValidating", i, binding.NamedBinding))
	}
	for i, binding := range c.Mutating {
		errs = append(errs, check("kubernetesMutating", i, binding.NamedBinding))
	}
	for i, binding := range c.Conversion {
		errs = append(errs, check("kubernetesCustomResourceConversion", i, binding.NamedBinding))
	}
	return errors.Join(errs...)
}

// crontab reads crontabs of five fields, or of six fields that begin with the seconds.
var crontab = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

func (b *CommonBinding) setDefaults(name string) {
	if b.Name == "" {
		b.Name = name
	}
	if b.Queue == "" {
		b.Queue = mainQueue
	}
}

// check checks the fields of a binding, and prepares its selectors and its filter.
func (b *KubernetesBinding) check() error {
	if b.Kind == "" {
		return errors.New("kind is missing")
	}
	if b.ExecuteHookOnEvent == nil {
		b.ExecuteHookOnEvent = b.WatchEvent
	}
	if b.ExecuteHookOnEvent != nil {
		for _, event := range *b.ExecuteHookOnEvent {
			if !slices.Contains(allEvents, event) {
				return fmt.Errorf("executeHookOnEvent has %q; allowed are Added, Modified and Deleted", event)
			}
		}
	}
	if b.Resynchronization != "" {
		if _, err := time.ParseDuration(b.Resynchronization); err != nil {
			return fmt.Errorf("resynchronizationPeriod is %q; give a duration such as 1h", b.Resynchronization)
		}
	}
	b.labels = labels.Everything()
	if b.LabelSelector != nil {
		var err error
		if b.labels, err = metav1.LabelSelectorAsSelector(b.LabelSelector); err != nil {
			return fmt.Errorf("labelSelector: %w", err)
		}
	}
	if b.Namespace != nil && b.Namespace.LabelSelector != nil {
		var err error
		if b.namespaceLabels, err = metav1.LabelSelectorAsSelector(b.Namespace.LabelSelector); err != nil {
			return fmt.Errorf("namespace.labelSelector: %w", err)
		}
	}
	if err := b.checkFields(); err != nil {
		return err
	}
	var err error
	if b.JQFilter != "" {
		if b.filter, err = compileJQ(b.JQFilter); err != nil {
			return fmt.Errorf("jqFilter is %q: %w", b.JQFilter, err)
		}
	}
	return nil
}

func (b *KubernetesBinding) checkFields() error {
	b.fields = fields.Everything()
	if b.FieldSelector == nil {
		return nil
	}
	for i, expression := range b.FieldSelector.MatchExpressions {
		var term fields.Selector
		switch expression.Operator {
		case "Equals", "=", "==":
			term = fields.OneTermEqualSelector(expression.Field, expression.Value)
		case "NotEquals", "!=":
			term = fields.OneTermNotEqualSelector(expression.Field, expression.Value)
		default:
			return fmt.Errorf("fieldSelector.matchExpressions[%d].operator is %q; allowed are Equals and NotEquals", i, expression.Operator)
		}
		if expression.Field == "" {
			return fmt.Errorf("fieldSelector.matchExpressions[%d].field is missing", i)
		}
		if expression.Field == metav1.ObjectNameField && b.NameSelector != nil {
			return fmt.Errorf("fieldSelector.matchExpressions[%d].field is metadata.name, and nameSelector is set; use one of them", i)
		}
		b.fields = fields.AndSelectors(b.fields, term)
	}
	return nil
}
