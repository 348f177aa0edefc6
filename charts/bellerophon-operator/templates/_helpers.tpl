{{- define "bellerophon-operator.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "bellerophon-operator.labels" -}}
{{ include "bellerophon-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "bellerophon-operator.serviceAccount" -}}
{{ .Values.serviceAccount.name | default .Release.Name }}
{{- end }}

{{- define "bellerophon-operator.webhooks" -}}
{{ .Release.Name }}-webhooks
{{- end }}

{{/* The ClusterRole for the webhooks, which owns their configuration. */}}
{{- define "bellerophon-operator.webhooksRole" -}}
{{- printf "bellerophon:%s:%s" .Release.Namespace (include "bellerophon-operator.webhooks" .) -}}
{{- end }}
